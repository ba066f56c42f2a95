"""The score shown while a run goes is on its way to the headline, and ends as it."""

import random

import pytest

from agentcompass.components.contracts.attempt import (
    AttemptKey,
    AttemptRecord,
    Detail,
    Note,
    Verdict,
)
from agentcompass.components.contracts.errors import Code, Phase
from agentcompass.components.results.metrics import compute_metrics
from agentcompass.components.results.score_so_far import ScoreSoFar

CATEGORIES = {f"t{n}": f"c{n % 3}" for n in range(12)}
FAILED = Note(code=Code.MODEL_UNAVAILABLE, phase=Phase.RUN, message="502")


def record(task_id: str, index: int, value: float | None, primary: str) -> AttemptRecord:
    key = AttemptKey(task_id=task_id, index=index)
    if value is None:
        return AttemptRecord(key=key, status="unscored", failure=FAILED)
    verdict = Verdict(correct=value == 1.0) if primary == "correct" else Verdict(score=value)
    return AttemptRecord(key=key, status="scored", verdict=verdict)


def some_records(k: int, strategy: str, primary: str) -> list[AttemptRecord]:
    """As a run would make them, in the order in which they ended."""
    choose = random.Random(f"{k}{strategy}{primary}")
    records = []
    for task_id in CATEGORIES:
        for index in range(1, k + 1):
            value = choose.choice([None, 0.0, 1.0, 1.0] if primary == "correct" else [None, 0.3, 7])
            records.append(record(task_id, index, value, primary))
            if strategy == "pass" and value == 1.0:
                skipped = range(index + 1, k + 1)
                records += [
                    AttemptRecord(key=AttemptKey(task_id=task_id, index=n), status="skipped")
                    for n in skipped
                ]
                break
    choose.shuffle(records)
    return records


@pytest.mark.parametrize("aggregation", ["micro", "macro"])
@pytest.mark.parametrize("unscored", ["zero", "exclude"])
@pytest.mark.parametrize(
    ("k", "strategy", "primary"),
    [(1, "avg", "correct"), (3, "avg", "correct"), (3, "pass", "correct"), (2, "avg", "score")],
)
def test_when_all_have_ended_it_is_the_headline_of_the_result(
    k: int, strategy: str, primary: str, unscored: str, aggregation: str
) -> None:
    rules = {
        "k": k,
        "strategy": strategy,
        "primary": primary,
        "unscored": unscored,
        "aggregation": aggregation,
        "score_range": (0.0, 7.0),
    }
    records = some_records(k, strategy, primary)
    so_far = ScoreSoFar(CATEGORIES, **rules)  # type: ignore[arg-type]
    for one in records:
        so_far.add(one)
    details = [
        Detail(
            task_id=task_id,
            category=category,
            instruction="?",
            content_hash="0",
            planned=k,
            attempts=tuple(r for r in records if r.key.task_id == task_id),
        )
        for task_id, category in CATEGORIES.items()
    ]
    headline = compute_metrics(details, CATEGORIES, **rules).headline  # type: ignore[arg-type]
    found = so_far.estimate()
    assert headline.value is not None
    assert (found.value, found.interval95) == (headline.value, headline.interval95)
    assert found.standard_error == headline.standard_error


def test_a_task_counts_from_its_first_attempt_on() -> None:
    so_far = ScoreSoFar(k=3)
    assert so_far.estimate().value is None
    so_far.add(record("a", 1, 1.0, "correct"))
    so_far.add(record("b", 2, 0.0, "correct"))
    so_far.add(record("a", 3, 0.0, "correct"))
    found = so_far.estimate()
    assert (found.value, found.n_tasks) == (0.25, 2)


def test_what_has_no_score_is_no_score_as_long_as_nothing_is_scored() -> None:
    so_far = ScoreSoFar()
    so_far.add(record("a", 1, None, "correct"))
    assert so_far.estimate().value is None
    so_far.add(record("b", 1, 1.0, "correct"))
    assert so_far.estimate().value == 0.5


def test_under_pass_an_undecided_task_waits() -> None:
    so_far = ScoreSoFar(k=2, strategy="pass")
    so_far.add(record("a", 1, 1.0, "correct"))
    so_far.add(record("b", 1, 0.0, "correct"))
    assert so_far.estimate().value == 1.0
    so_far.add(record("b", 2, 0.0, "correct"))
    assert so_far.estimate().value == 0.5


def test_what_the_end_of_the_run_cut_off_says_nothing_of_the_agent() -> None:
    so_far = ScoreSoFar()
    so_far.add(record("a", 1, 1.0, "correct"))
    cut_off = Note(code=Code.RUN_CANCELLED, phase=Phase.RUN, message="interrupted")
    so_far.add(record("b", 1, None, "correct").model_copy(update={"failure": cut_off}))
    assert so_far.estimate().value == 1.0
