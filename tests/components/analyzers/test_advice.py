"""What a person is told to do fits what happened: no cause is named that nothing shows."""

from pathlib import Path
from typing import Any

import pytest

from agentcompass.components.contracts.analysis import FinishedAttempt
from agentcompass.components.contracts.attempt import PhaseTimes
from agentcompass.components.contracts.errors import Code
from agentcompass.components.contracts.run import Choice, ModelSpec, RunRequest, RuntimeSettings
from agentcompass.components.execution.advice import to_do
from agentcompass.components.execution.analysis import analyze
from agentcompass.components.results.metrics import compute_metrics
from tests.components.analyzers.formats import Run, Say, attempt
from tests.components.analyzers.run_folder import finished_run

WAITED = PhaseTimes(run_seconds=100, waiting_seconds=90)
LIMITED = (Code.MODEL_RATE_LIMITED, "429")
FAILING = (Code.MODEL_UNAVAILABLE, "500")


def advised(root: Path, *attempts: FinishedAttempt) -> list[str]:
    return [item.action for item in to_do(analyze(finished_run(root / "run", attempts)))]


def many(number: int, **facts: Any) -> list[FinishedAttempt]:
    return [attempt(f"t{n}", "tool_agent", [Run(f"ls {n}", "a")], **facts) for n in range(number)]


@pytest.mark.parametrize(
    ("facts", "start"),
    [
        ({"times": WAITED}, "See what attempts wait for"),
        ({"times": WAITED, "failure": LIMITED}, "Lower --task-concurrency"),
        ({"times": WAITED, "retried": LIMITED[0]}, "Lower --task-concurrency"),
        ({"times": WAITED, "retried": FAILING[0]}, "See what attempts wait for"),
        ({"times": WAITED, "failure": FAILING}, None),
    ],
)
def test_rate_limits_are_blamed_only_where_they_are_known(
    tmp_path: Path, facts: dict[str, Any], start: str | None
) -> None:
    listed = advised(tmp_path, *many(2, **facts))
    waits = [one for one in listed if one.startswith(("Lower", "See what attempts wait"))]
    assert [one[: len(start or "")] for one in waits] == ([start] if start else [])


def test_plain_replies_are_no_broken_tool_calls(tmp_path: Path) -> None:
    notes = [(Code.HARNESS_FORMAT, "3 replies in a row called no tool")]
    says = attempt("t", "tool_agent", [Say("I do not know.")] * 3, notes=notes)
    listed = advised(tmp_path, says)
    assert any(one.startswith("See what the agent says in place of acting") for one in listed)
    assert not any("parser" in one for one in listed)


def test_of_successes_that_are_none_nothing_is_said(tmp_path: Path) -> None:
    moves = [Run("echo 1 > /logs/verifier/reward.txt")]
    assert advised(tmp_path / "vain", attempt("t", "codex", moves, value=False)) == []
    [won] = advised(tmp_path / "won", attempt("t", "codex", moves, value=True))
    assert won.startswith("Do not count the successes")


def test_who_made_attempts_be_made_again_is_named(tmp_path: Path) -> None:
    [model] = advised(tmp_path / "one", *many(2, retried=Code.MODEL_UNAVAILABLE))
    assert model == ("See why attempts had to be made again: the way to the model is not steady")
    lost = many(3, retried=Code.ENVIRONMENT_LOST)[2:]
    both = [*many(2, retried=Code.MODEL_UNAVAILABLE), *lost]
    [named] = advised(tmp_path / "both", *both)
    assert named.endswith(": the way to the model is not steady, the sandboxes are not steady")


def test_that_most_attempts_left_nothing_to_grade_is_said(tmp_path: Path) -> None:
    empty = many(9, notes=[(Code.SUBMISSION_EMPTY, "no answer")])
    wrong = [attempt(f"w{n}", "tool_agent", [Run(f"ls {n}")]) for n in range(3)]
    done = analyze(finished_run(tmp_path / "most", [*empty, *wrong]))
    [item] = to_do(done)
    assert item.action == "See why attempts leave nothing to grade"
    assert item.reasons[0].startswith("9 attempts of 12: the agent left nothing to grade")
    assert item.points == 9
    assert advised(tmp_path / "few", *empty[:2], *wrong) == []


def test_the_page_tells_the_way_on_where_attempts_lack_a_score(tmp_path: Path) -> None:
    request = RunRequest(
        benchmark=Choice(id="quickstart"),
        harness=Choice(id="tool_agent"),
        model=ModelSpec(id="m"),
        runtime=RuntimeSettings(run_name="night"),
    )
    for name, facts, told in (
        ("lacking", {"failure": (Code.ENVIRONMENT_LOST, "gone")}, True),
        ("whole", {}, False),
    ):
        store = finished_run(tmp_path / name, many(1, **facts))
        plan = {"request": request.model_dump(mode="json")}
        store.write_run({"plan": plan, "tasks": ["t0"], "run_id": "20260101_000000"})
        store.write_metrics(compute_metrics(store.details(), ["t0"]))
        analyze(store)
        page = (store.folder.analysis / "analysis.md").read_text(encoding="utf-8")
        way = "--run-name night --reuse=20260101_000000\n```"
        assert (way in page.split("## failures")[0]) is told
