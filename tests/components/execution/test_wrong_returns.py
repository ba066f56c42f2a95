"""A plugin that returns something else than it must: its attempt is told so, and no other."""

from pathlib import Path
from typing import Any

import pytest

from agentcompass.components.contracts.attempt import Submission
from agentcompass.components.contracts.errors import Code, Phase
from agentcompass.components.contracts.protocols import Needs
from tests.components.execution.test_attempt import attempt
from tests.components.execution.test_steps import CountBenchmark
from tests.standins.parts import YesBenchmark, parts, says_yes


def returning(value: Any) -> Any:
    async def work(*given: Any, **more: Any) -> Any:
        return value

    return work


@pytest.mark.parametrize("value", ["yes", None, ("yes", 1)])
@pytest.mark.parametrize("plays", [False, True])
def test_a_harness_that_returns_no_submission_has_crashed(
    tmp_path: Path, value: Any, plays: bool
) -> None:
    made_of = parts(returning(value))
    if plays:
        made_of.harness.needs = Needs(sandbox=False, model=False, solution=True)
        made_of.harness.play = returning(value)  # type: ignore[union-attr]
    record = attempt(tmp_path, made_of)
    (note,) = record.notes
    assert (note.code, note.phase) == (Code.HARNESS_CRASHED, Phase.RUN)
    assert f"returned {type(value).__name__!r}, not a Submission" in note.message
    assert (record.value, record.timed_out) == (0.0, False)
    assert record.submission == Submission(stop_reason=Code.HARNESS_CRASHED)


@pytest.mark.parametrize("value", ["yes", None])
def test_a_benchmark_that_collects_no_submission_is_at_fault(tmp_path: Path, value: Any) -> None:
    benchmark = YesBenchmark()
    benchmark.collect = returning(value)  # type: ignore[method-assign]
    failure = attempt(tmp_path, parts(says_yes, benchmark)).failure
    assert failure is not None
    assert (failure.code, failure.phase) == (Code.FRAMEWORK_UNEXPECTED, Phase.COLLECT)
    assert f"collect returned {type(value).__name__!r}" in failure.message


@pytest.mark.parametrize("value", ["yes", None, (None, True), Submission()])
def test_a_step_that_ends_with_no_submission_is_the_graders_fault(
    tmp_path: Path, value: Any
) -> None:
    benchmark = CountBenchmark()
    benchmark.end_step = returning(value)  # type: ignore[method-assign]
    benchmark.samples = (benchmark.samples[0],)
    failure = attempt(tmp_path, parts(says_yes, benchmark)).failure
    assert failure is not None
    assert (failure.code, failure.phase) == (Code.GRADER_CRASHED, Phase.SCORE)


@pytest.mark.parametrize("value", ["yes", None, {"correct": True}])
def test_a_grader_that_returns_no_verdict_has_crashed(tmp_path: Path, value: Any) -> None:
    benchmark = YesBenchmark()
    benchmark.verify = returning(value)  # type: ignore[method-assign]
    failure = attempt(tmp_path, parts(says_yes, benchmark)).failure
    assert failure is not None
    assert (failure.code, failure.phase) == (Code.GRADER_CRASHED, Phase.SCORE)
