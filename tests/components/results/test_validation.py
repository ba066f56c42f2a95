import pytest

from agentcompass.components.contracts.attempt import Detail
from agentcompass.components.contracts.errors import Code
from agentcompass.components.results.validation import (
    Validation,
    validation,
    validation_markdown,
)
from tests.components.results.records import Outcome, detail


def judged(
    oracle: tuple[Outcome, ...],
    idle: tuple[Outcome, ...],
    score_range: tuple[float, float] = (0.0, 1.0),
) -> Validation:
    return validation(
        "b", "docker", len(oracle), score_range, [detail("t", *oracle)], [detail("t", *idle)], ["t"]
    )


@pytest.mark.parametrize(
    ("oracle", "idle", "health"),
    [
        ((1, 1, 1), (0, 0, 0), "sound"),
        ((1, 0, 1), (0, 0, 0), "flaky"),
        ((1, 1, 1), (0, 0, 1), "flaky"),
        ((0, 0, 0), (0, 0, 0), "solution_fails"),
        ((1, 1, 1), (1, 1, 1), "idle_scores"),
        ((1, Code.GRADER_CRASHED, 1), (0, 0, 0), "not_judged"),
        ((1, 1, 1), (0, 0, None), "not_judged"),
    ],
)
def test_a_task_is_sound_only_if_every_verdict_is_what_it_must_be(
    oracle: tuple[Outcome, ...], idle: tuple[Outcome, ...], health: str
) -> None:
    (task,) = judged(oracle, idle).tasks
    assert task.health == health


def test_scores_are_measured_against_the_benchmarks_own_range() -> None:
    assert judged((10.0,), (2.0,), (2.0, 10.0)).tasks[0].health == "sound"
    assert judged((9.5,), (2.0,), (2.0, 10.0)).tasks[0].health == "solution_fails"
    assert judged((10.0,), (2.5,), (2.0, 10.0)).tasks[0].health == "idle_scores"


def test_a_planned_task_without_any_record_is_not_judged() -> None:
    nobody: list[Detail] = []
    result = validation("b", "docker", 1, (0.0, 1.0), nobody, nobody, ["lost"])
    assert [(task.task_id, task.health) for task in result.unsound] == [("lost", "not_judged")]


def test_the_report_names_what_is_wrong_and_why() -> None:
    details = [detail("good", 1, 1), detail("bad", 1, Code.GRADER_CRASHED)]
    idle = [detail("good", 0, 0), detail("bad", 0, 0)]
    result = validation("b", "docker", 2, (0.0, 1.0), details, idle, ["good", "bad"])
    text = validation_markdown(result)
    assert "1 of 2 tasks are sound" in text
    assert "`bad`: solution 1, –; idle 0, 0" in text
    assert "grader.crashed: " in text
    assert "good" not in text
