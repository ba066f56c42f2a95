"""Retries, the order of attempts, and what is taken over: with real files, without Prefect."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from agentcompass.components.contracts.attempt import (
    AttemptKey,
    Submission,
    Verdict,
)
from agentcompass.components.contracts.errors import AgentCompassError, Code
from agentcompass.components.results.paths import RunFolder
from tests.components.execution.measured import failing, measured
from tests.standins.parts import YesBenchmark, parts, sample, says_yes


def test_fatal_failures_are_tried_again_and_told(tmp_path: Path) -> None:
    made_of = parts(failing(2, Code.MODEL_UNAVAILABLE))
    run, (record,) = measured(tmp_path, made_of, max_retries=2)
    assert (record.value, record.key.physical) == (1.0, 3)
    assert [note.code for note in record.earlier_failures] == [Code.MODEL_UNAVAILABLE] * 2
    assert (run.board.progress.scored, run.board.progress.running) == (1, 0)
    assert RunFolder(tmp_path).checkpoint(record.key).parent.parent.name == "retries"


@pytest.mark.parametrize(
    ("code", "settings", "tries"),
    [
        (Code.MODEL_UNAVAILABLE, {}, 1),
        (Code.MODEL_UNAVAILABLE, {"max_retries": 1}, 2),
        (Code.MODEL_BAD_REQUEST, {"max_retries": 3}, 1),
        (Code.MODEL_BAD_REQUEST, {"max_retries": 3, "retry_pattern_list": ["BAD_REQ"]}, 4),
        (Code.MODEL_BAD_REQUEST, {"max_retries": 3, "retry_pattern_list": ["plant(ed)?$"]}, 4),
        (Code.MODEL_BAD_REQUEST, {"max_retries": 3, "retry_pattern_list": ["other"]}, 1),
    ],
)
def test_what_is_tried_again(
    tmp_path: Path, code: Code, settings: dict[str, Any], tries: int
) -> None:
    _, (record,) = measured(tmp_path, parts(failing(99, code)), **settings)
    assert record.status == "unscored"
    assert len(record.earlier_failures) == tries - 1
    assert record.key.physical == tries


def test_a_warning_is_never_tried_again(tmp_path: Path) -> None:
    made_of = parts(failing(1, Code.HARNESS_CRASHED))
    settings = {"max_retries": 3, "retry_pattern_list": [".*"]}
    _, (record,) = measured(tmp_path, made_of, **settings)
    assert (record.value, record.earlier_failures) == (0.0, ())


def test_what_stops_the_run_is_not_tried_again(tmp_path: Path) -> None:
    made_of = parts(failing(99, Code.MODEL_AUTH), YesBenchmark(samples=map(sample, "abc")))
    with pytest.raises(AgentCompassError, match="refused the key"):
        measured(tmp_path, made_of, max_retries=5)


def test_a_failed_judging_is_judged_again_without_the_agent(tmp_path: Path) -> None:
    benchmark, calls = YesBenchmark(), []

    async def sometimes() -> Verdict | None:
        calls.append("judge")
        if len(calls) == 1:
            raise AgentCompassError(Code.GRADER_TIMEOUT, "planted")
        return None

    benchmark.on_verify = sometimes
    _, (record,) = measured(tmp_path, parts(says_yes, benchmark), max_retries=1)
    assert (record.value, record.key.physical, len(calls)) == (1.0, 1, 2)
    assert benchmark.events.count("collect") == 1


def test_waiting_for_the_next_try_holds_up_nobody(tmp_path: Path) -> None:
    """Two slots, two attempts in a long pause: the others are done meanwhile."""
    order: list[str] = []

    async def act(log: Any) -> Submission:
        order.append("try")
        if len(order) <= 2:
            raise AgentCompassError(Code.MODEL_UNAVAILABLE, "planted")
        return Submission(answer="yes")

    made_of = parts(act, YesBenchmark(samples=map(sample, "abcdefgh")))
    delays = {"retry_min_delay_seconds": 1.0, "retry_max_delay_seconds": 1.0}
    run, records = measured(tmp_path, made_of, max_retries=1, **delays)
    assert len(order) == 10
    assert [r.key.physical for r in records].count(2) == 2
    last_two = sorted(records, key=lambda r: r.ended_at or r.started_at)[-2:]  # type: ignore[arg-type,return-value]
    assert {r.key.physical for r in last_two} == {2}
    assert run.board.progress.running == 0


def test_scored_attempts_are_taken_over_and_the_rest_is_run(tmp_path: Path) -> None:
    """C05: scored ones keep their value whatever they note; unscored and missing ones run."""
    outcomes = {"a": "yes", "b": "no", "c": None}

    def act_for(made: list[str]) -> Callable[[Any], Awaitable[Submission]]:
        async def act(log: Any) -> Submission:
            task = log.trajectory().extra["task_id"]
            made.append(task)
            answer = outcomes[task]
            if answer is None:
                raise AgentCompassError(Code.MODEL_UNAVAILABLE, "down")
            return Submission(answer=answer)

        return act

    first: list[str] = []
    samples = tuple(sample(name) for name in "abc")
    measured(tmp_path / "one", parts(act_for(first), YesBenchmark(samples=samples)))
    outcomes.update(c="yes", a="no")  # a would be wrong now, and must not be asked again
    second: list[str] = []
    made_of = parts(act_for(second), YesBenchmark(samples=(*samples, sample("d"))))
    outcomes["d"] = "yes"
    run, records = measured(tmp_path / "two", made_of, source=tmp_path / "one")
    assert sorted(second) == ["c", "d"]
    assert {r.key.task_id: (r.value, r.origin) for r in records} == {
        "a": (1.0, "one"),
        "b": (0.0, "one"),
        "c": (1.0, None),
        "d": (1.0, None),
    }
    assert run.board.progress.scored == 4
    third: list[str] = []
    made_of = parts(act_for(third), YesBenchmark(samples=(*samples, sample("d"))))
    _, records = measured(tmp_path / "three", made_of, source=tmp_path / "two")
    assert third == []
    assert {r.key.task_id: r.origin for r in records}["a"] == "one"


def test_a_checkpoint_is_judged_without_the_agent(tmp_path: Path) -> None:
    broken = YesBenchmark()
    broken.on_verify = _breaks
    measured(tmp_path / "one", parts(says_yes, broken))
    asked: list[str] = []

    async def act(log: Any) -> Submission:
        asked.append("agent")
        return Submission(answer="yes")

    _, (record,) = measured(tmp_path / "two", parts(act), source=tmp_path / "one")
    assert (record.value, asked) == (1.0, [])
    reuse = YesBenchmark("reuse")  # a grader in the agent's own sandbox cannot come back to it
    _, (record,) = measured(tmp_path / "three", parts(act, reuse), source=tmp_path / "one")
    assert (record.value, asked) == (1.0, ["agent"])


def test_damage_is_told_and_only_that_task_runs_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """C02: a torn record, garbage, a later schema; the damaged files stay as they are."""
    samples = tuple(sample(name) for name in "abcd")
    measured(tmp_path / "one", parts(says_yes, YesBenchmark(samples=samples)))
    folder = RunFolder(tmp_path / "one")
    torn = folder.detail("a").read_bytes()[:-200]
    folder.detail("a").write_bytes(torn)
    folder.detail("b").write_bytes(b"\x00\x01 garbage")
    later = folder.detail("c").read_text().replace('"schema_version": 2', '"schema_version": 99', 1)
    folder.detail("c").write_text(later)
    for name in "abc":
        folder.checkpoint(_key(name)).unlink()
    _, records = measured(
        tmp_path / "two", parts(says_yes, YesBenchmark(samples=samples)), source=tmp_path / "one"
    )
    assert {r.key.task_id: r.origin for r in records} == {
        "a": None,
        "b": None,
        "c": None,
        "d": "one",
    }
    assert folder.detail("a").read_bytes() == torn
    for name in "abc":
        assert f"{name} runs again" in caplog.text


def test_resuming_does_not_inflate_the_files(tmp_path: Path) -> None:
    """C46: what is taken over is linked, not copied."""

    async def act(log: Any) -> Submission:
        log.system("x" * 2_000_000)
        return Submission(answer="yes")

    benchmark = YesBenchmark(samples=map(sample, "abc"))
    measured(tmp_path / "0", parts(act, benchmark))
    once = _disk_use(tmp_path)
    for number in range(3):
        source = tmp_path / str(number)
        measured(tmp_path / str(number + 1), parts(act, benchmark), source=source)
    assert _disk_use(tmp_path) < 1.2 * once


def _disk_use(folder: Path) -> int:
    files = {
        path.stat().st_ino: path.stat().st_size for path in folder.rglob("*") if path.is_file()
    }
    return sum(files.values())


def _key(task_id: str) -> AttemptKey:
    return AttemptKey(task_id=task_id, index=1)


async def _breaks() -> Verdict | None:
    raise AgentCompassError(Code.GRADER_TIMEOUT, "planted")
