import asyncio
from pathlib import Path
from typing import Any

import pytest

from agentcompass.components.contracts.attempt import AttemptKey, AttemptRecord, Submission, Verdict
from agentcompass.components.contracts.errors import AgentCompassError, Code, Phase
from agentcompass.components.contracts.requirements import Requirements
from agentcompass.components.contracts.run import ExecutionSettings
from agentcompass.components.execution.attempt import run_attempt
from agentcompass.components.execution.desk import AttemptDesk
from agentcompass.components.execution.job import Job
from agentcompass.components.execution.parts import Parts
from agentcompass.components.results.paths import RunFolder
from agentcompass.components.results.store import RunStore
from tests.components.execution.stages import Directly
from tests.standins.parts import YesBenchmark, parts, sample, says_yes, sleeps_for_ever

KEY = AttemptKey(task_id="t1", index=1)


def attempt(tmp_path: Path, made_of: Parts, **settings: Any) -> AttemptRecord:
    store = RunStore(RunFolder(tmp_path))
    sample = made_of.benchmark.samples[0]  # type: ignore[attr-defined]
    job = Job("run", KEY, sample, ExecutionSettings(**settings))
    return asyncio.run(run_attempt(job, made_of, AttemptDesk(store, KEY), Directly()))


def boxes(made_of: Parts) -> list[str]:
    return made_of.environments.events  # type: ignore[attr-defined,no-any-return]


def test_a_right_answer_is_scored_and_everything_is_on_disk(tmp_path: Path) -> None:
    record = attempt(tmp_path, parts(says_yes))
    store = RunStore(RunFolder(tmp_path))
    assert (record.status, record.value, record.failure) == ("scored", 1.0, None)
    checkpoint = store.read_checkpoint(KEY)
    assert checkpoint is not None
    assert checkpoint.submission.answer == "yes"
    assert store.read_trajectory(KEY) is not None


@pytest.mark.parametrize(
    ("mode", "expected", "judged_in"),
    [
        ("none", ["open run", "close run"], "no sandbox"),
        ("reuse", ["open run", "close run"], "run"),
        ("fresh", ["open run", "close run", "open grade", "close grade"], "grade"),
    ],
)
def test_the_sandbox_lives_as_long_as_the_grader_needs_it(
    tmp_path: Path, mode: str, expected: list[str], judged_in: str
) -> None:
    benchmark = YesBenchmark(mode)
    made_of = parts(says_yes, benchmark)
    assert attempt(tmp_path, made_of).value == 1.0
    assert boxes(made_of) == expected
    assert benchmark.events == ["prepare", "collect", f"verify in {judged_in}"]


def test_an_agent_out_of_time_is_graded_and_marked(tmp_path: Path) -> None:
    record = attempt(
        tmp_path, parts(sleeps_for_ever), run_timeout_seconds=0.2, finalization_grace_seconds=1
    )
    assert (record.status, record.value, record.timed_out) == ("scored", 0.0, True)
    assert [note.code for note in record.notes] == [Code.HARNESS_TIMEOUT]


def test_a_call_that_took_the_agents_time_is_the_models_fault(tmp_path: Path) -> None:
    made_of = parts(sleeps_for_ever)
    made_of.model.model.pending_seconds = 0.2  # type: ignore[attr-defined]
    record = attempt(tmp_path, made_of, run_timeout_seconds=0.2)
    assert record.failure is not None
    assert (record.failure.code, record.status) == (Code.MODEL_TIMEOUT, "unscored")


def test_waiting_for_rate_limits_is_not_the_agents_time(tmp_path: Path) -> None:
    async def waits(log: Any) -> Submission:
        made_of.model.model.waiting_seconds += 5.0  # type: ignore[attr-defined]
        await asyncio.sleep(0.4)
        return Submission(answer="yes")

    made_of = parts(waits)
    record = attempt(tmp_path, made_of, run_timeout_seconds=0.2)
    assert (record.value, record.timed_out) == (1.0, False)


def test_a_crashed_agent_is_graded_by_what_it_left(tmp_path: Path) -> None:
    async def crashes(log: Any) -> Submission:
        raise ZeroDivisionError("by its own fault")

    record = attempt(tmp_path, parts(crashes))
    assert (record.status, record.value) == ("scored", 0.0)
    assert [(n.code, n.phase) for n in record.notes] == [(Code.HARNESS_CRASHED, Phase.RUN)]
    assert "by its own fault" in RunFolder(tmp_path).attempt_log(KEY).read_text()


def test_a_dead_endpoint_is_no_zero(tmp_path: Path) -> None:
    async def cannot_ask(log: Any) -> Submission:
        raise AgentCompassError(Code.MODEL_UNAVAILABLE, "connection refused")

    record = attempt(tmp_path, parts(cannot_ask))
    assert record.value is None
    assert record.failure is not None
    assert (record.failure.code, record.failure.phase) == (Code.MODEL_UNAVAILABLE, Phase.RUN)


def test_set_up_and_grader_out_of_time_are_unscored(tmp_path: Path) -> None:
    slow_setup, slow_grader = YesBenchmark(), YesBenchmark()
    slow_setup.on_prepare = lambda: asyncio.sleep(3600)
    slow_grader.on_verify = lambda: asyncio.sleep(3600)  # type: ignore[assignment]
    first = attempt(tmp_path / "a", parts(says_yes, slow_setup), setup_timeout_seconds=0.2)
    second = attempt(tmp_path / "b", parts(says_yes, slow_grader), evaluation_timeout_seconds=0.2)
    assert first.failure is not None
    assert first.failure.code is Code.ENVIRONMENT_SETUP_TIMEOUT
    assert second.failure is not None
    assert second.failure.code is Code.GRADER_TIMEOUT
    assert second.submission is not None  # the checkpoint is kept


def test_a_grader_that_breaks_or_lies_gives_no_score(tmp_path: Path) -> None:
    async def breaks() -> Verdict:
        raise KeyError("reward")

    async def out_of_range() -> Verdict:
        return Verdict(score=2.0)

    broken, lying = YesBenchmark(), YesBenchmark()
    broken.on_verify, lying.on_verify = breaks, out_of_range  # type: ignore[assignment]
    codes = [
        attempt(tmp_path / str(n), parts(says_yes, b)).failure
        for n, b in enumerate([broken, lying])
    ]
    assert [f.code for f in codes if f] == [Code.GRADER_CRASHED, Code.GRADER_INVALID_REWARD]


def test_a_sandbox_that_will_not_open_or_close(tmp_path: Path) -> None:
    async def refuses() -> None:
        raise RuntimeError("no room")

    shut, stuck = parts(says_yes), parts(says_yes)
    shut.environments.on_open = refuses  # type: ignore[attr-defined]
    stuck.environments.on_close = refuses  # type: ignore[attr-defined]
    unopened = attempt(tmp_path / "a", shut)
    assert unopened.failure is not None
    assert unopened.failure.phase is Phase.SETUP
    assert attempt(tmp_path / "b", stuck).value == 1.0


def test_cancellation_rises_and_closes_the_sandbox(tmp_path: Path) -> None:
    made_of = parts(sleeps_for_ever)

    async def interrupt() -> None:
        store = RunStore(RunFolder(tmp_path))
        job = Job("run", KEY, made_of.benchmark.samples[0], ExecutionSettings())  # type: ignore[attr-defined]
        running = asyncio.create_task(
            run_attempt(job, made_of, AttemptDesk(store, KEY), Directly())
        )
        await asyncio.sleep(0.2)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    asyncio.run(interrupt())
    assert boxes(made_of) == ["open run", "close run"]


@pytest.mark.parametrize(
    ("mode", "prepares", "phases"),
    [
        ("none", False, [["baseline", "run"]]),
        ("reuse", False, [["baseline", "run", "evaluation"]]),
        ("fresh", False, [["baseline", "run"], ["baseline", "evaluation"]]),
        ("fresh", True, [["baseline", "run"], ["baseline"]]),
    ],
)
def test_agent_and_grader_each_work_in_their_own_phase(
    tmp_path: Path, mode: str, prepares: bool, phases: list[list[str]]
) -> None:
    benchmark = YesBenchmark(mode)
    benchmark.prepares_grading = prepares
    made_of = parts(says_yes, benchmark)
    assert attempt(tmp_path, made_of).value == 1.0
    assert [box.phases for box in made_of.environments.boxes] == phases  # type: ignore[attr-defined]


def test_the_image_of_the_agents_sandbox_is_recorded(tmp_path: Path) -> None:
    task = sample("t1", requirements=Requirements(image="name@sha256:1"))
    record = attempt(tmp_path, parts(says_yes, YesBenchmark("fresh", [task])))
    assert record.image == "name@sha256:1"
    left = RunStore(RunFolder(tmp_path)).read_checkpoint(KEY)
    assert left is not None
    assert left.image == "name@sha256:1"
