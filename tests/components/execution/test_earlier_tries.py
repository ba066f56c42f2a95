"""Every try of an attempt is paid for once and told once, however the run before it ended."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agentcompass.components.contracts.attempt import (
    AttemptKey,
    AttemptRecord,
    Submission,
    Verdict,
)
from agentcompass.components.contracts.errors import AgentCompassError, Code
from agentcompass.components.contracts.usage import Usage
from agentcompass.components.execution import unit as unit_module
from agentcompass.components.execution.open_run import OpenRun
from agentcompass.components.execution.parts import Parts
from agentcompass.components.results.paths import RunFolder
from tests.components.execution.measured import failing, measured
from tests.standins.parts import Boxes, QuietModel, QuietModels, YesBenchmark, parts, says_yes

DOWN, CRASHED = Code.MODEL_UNAVAILABLE, Code.GRADER_CRASHED
LONG = {"retry_min_delay_seconds": 60.0, "retry_max_delay_seconds": 60.0}


class Costly(QuietModels):
    """One call and half a dollar a try."""

    def client(self, key: AttemptKey) -> Any:
        return QuietModel(usage=Usage(calls=1, cost_usd=0.5))


def costly(act: Any, benchmark: YesBenchmark | None = None) -> Parts:
    return replace(parts(act, benchmark), model=Costly())


def ungraded() -> YesBenchmark:
    benchmark = YesBenchmark()

    async def breaks() -> Verdict | None:
        raise AgentCompassError(CRASHED, "planted")

    benchmark.on_verify = breaks
    return benchmark


async def never_asked(log: Any) -> Submission:
    raise AssertionError("the agent is asked again")


def told(record: AttemptRecord) -> tuple[object, ...]:
    usage = record.usage
    return record.value, usage.calls, usage.cost_usd, [n.code for n in record.earlier_failures]


def test_a_run_that_ends_before_the_next_try_keeps_the_one_that_failed(tmp_path: Path) -> None:
    def pausing(run: OpenRun) -> bool:
        return run.board.look().pausing == 1

    made_of = costly(failing(1, DOWN))
    run, (record,) = measured(tmp_path, made_of, stop_when=pausing, max_retries=2, **LONG)
    assert record.failure is not None
    assert (record.status, record.failure.code) == ("unscored", DOWN)
    assert (run.board.progress.unscored, run.board.progress.usage.calls) == (0, 0)
    run.board.close("interrupted")
    assert (run.board.progress.unscored, run.board.progress.usage.calls) == (1, 1)

    _, (record,) = measured(tmp_path, costly(says_yes), again=True)
    assert told(record) == (1.0, 2, 1.0, [DOWN])


def test_a_try_that_is_made_again_counts_once(tmp_path: Path) -> None:
    run, (record,) = measured(tmp_path, costly(failing(2, DOWN)), max_retries=2)
    assert told(record) == (1.0, 3, 1.5, [DOWN, DOWN])
    run.board.close("finished")
    progress = run.board.progress
    assert (progress.scored, progress.unscored, progress.usage.calls) == (1, 0, 3)


def killed_before_the_record(folder: Path, patch: pytest.MonkeyPatch, made_of: Parts) -> None:
    async def killed(*_: object) -> None:
        raise AgentCompassError(Code.RESULTS_WRITE, "killed")

    with patch.context() as within:
        within.setattr(unit_module, "_save", killed)
        with pytest.raises(AgentCompassError, match="killed"):
            measured(folder, made_of, again=True)


@pytest.mark.parametrize("kills", [1, 2])
def test_a_try_that_was_killed_after_its_checkpoint_is_paid_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kills: int
) -> None:
    measured(tmp_path, costly(failing(1, DOWN)))
    for _ in range(kills):  # the second time there is only the judging to kill
        killed_before_the_record(tmp_path, monkeypatch, costly(says_yes))
    _, (record,) = measured(tmp_path, costly(never_asked), again=True)
    assert told(record) == (1.0, 2, 1.0, [DOWN])
    assert record.key.physical == 2


def test_it_is_paid_for_also_when_the_agent_must_try_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made_of = costly(says_yes, YesBenchmark("reuse"))
    killed_before_the_record(tmp_path, monkeypatch, made_of)
    _, (record,) = measured(tmp_path, made_of, again=True)
    assert (told(record), record.key.physical) == ((1.0, 2, 1.0, []), 2)


def test_a_checkpoint_that_is_taken_over_brings_what_was_before_it(tmp_path: Path) -> None:
    source = tmp_path / "one"
    measured(source, costly(failing(1, DOWN), ungraded()), max_retries=1)
    _, (record,) = measured(tmp_path / "two", costly(never_asked), source)
    assert told(record) == (1.0, 2, 1.0, [DOWN, CRASHED])
    # A fresh agent begins anew: of its earlier tries nothing is in the new run.
    RunFolder(source).checkpoint(record.key).unlink()
    _, (record,) = measured(tmp_path / "three", costly(says_yes), source)
    assert told(record) == (1.0, 1, 0.5, [])


def test_an_attempt_that_is_not_needed_keeps_the_cost_of_its_checkpoint(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"attempts": {"k": 2, "strategy": "pass"}}
    broken, judged = YesBenchmark(), []

    async def breaks_first() -> Verdict | None:
        judged.append(1)
        if len(judged) == 1:
            raise AgentCompassError(CRASHED, "planted")
        return None

    broken.on_verify = breaks_first
    measured(tmp_path / "one", costly(says_yes, broken), **settings)
    made_of = costly(never_asked)
    _, (first, second) = measured(tmp_path / "two", made_of, tmp_path / "one", **settings)
    assert (first.status, second.status) == ("skipped", "scored")
    assert told(first) == (None, 1, 0.5, [CRASHED])


def test_a_checkpoint_behind_a_try_without_a_folder_is_found(tmp_path: Path) -> None:
    source, opened = tmp_path / "one", []

    async def hangs_the_second_time() -> None:
        opened.append(1)
        if len(opened) == 2:
            await asyncio.sleep(3600)

    made_of, boxes = costly(failing(1, DOWN)), Boxes()
    boxes.on_open = hangs_the_second_time
    made_of = replace(made_of, environments=boxes)
    measured(source, made_of, stop_when=lambda run: len(opened) == 2, max_retries=1)
    _, (record,) = measured(source, costly(says_yes, ungraded()), again=True)
    assert (record.key.physical, record.usage.calls) == (3, 3)
    assert not RunFolder(source).attempt(record.key.model_copy(update={"physical": 2})).exists()

    _, (record,) = measured(tmp_path / "two", costly(never_asked), source)
    assert told(record) == (1.0, 3, 1.5, [DOWN, Code.RUN_CANCELLED, CRASHED])
    _, (record,) = measured(source, costly(never_asked), again=True)
    assert told(record) == (1.0, 3, 1.5, [DOWN, Code.RUN_CANCELLED, CRASHED])
