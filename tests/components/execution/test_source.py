"""Of several earlier runs, the one in which most of the new run is done is taken from."""

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from agentcompass.components.contracts.attempt import AttemptKey, Verdict
from agentcompass.components.contracts.errors import AgentCompassError, Code
from agentcompass.components.contracts.task import Sample
from agentcompass.components.execution.source import find_source, finished
from agentcompass.components.results.paths import RunFolder
from agentcompass.components.results.store import RunStore
from tests.components.execution.measured import failing, measured, plan
from tests.standins.parts import YesBenchmark, parts, sample, says_yes

FOUR = tuple(sample(name) for name in "abcd")


def made(folder: Path, samples: tuple[Sample, ...], *, graded: bool = True) -> RunStore:
    benchmark = YesBenchmark(samples=samples)

    async def breaks() -> Verdict | None:
        raise AgentCompassError(Code.GRADER_CRASHED, "planted")

    if not graded:
        benchmark.on_verify = breaks
    measured(folder, parts(says_yes, benchmark))
    store = RunStore(RunFolder(folder))
    store.write_run({"fingerprint": {}})
    return store


def done(run: RunStore, samples: tuple[Sample, ...], mode: Any = "none", **settings: Any) -> int:
    return finished(run, plan(**settings), lambda task: mode, samples)


def test_what_agents_left_counts_as_what_is_scored(tmp_path: Path) -> None:
    made(tmp_path / "20250101", FOUR, graded=False)
    made(tmp_path / "20250102", FOUR[:1])  # a trial of one task, and the newer one
    count = partial(finished, plan=plan(), verification=lambda task: "none", samples=FOUR)
    found = find_source(tmp_path, "latest", {}, count)
    assert found is not None
    assert found.run_id == "20250101"


def test_only_what_the_new_run_can_use_counts(tmp_path: Path) -> None:
    scored, left = made(tmp_path / "one", FOUR), made(tmp_path / "two", FOUR, graded=False)
    assert done(scored, FOUR) == done(left, FOUR) == 4
    assert done(scored, (*FOUR[:2], sample("e"))) == 2, "its own tasks"
    assert done(left, FOUR, "reuse") == 0, "the grader needs the agent's own sandbox"
    changed = tuple(one.model_copy(update={"content_hash": "f" * 64}) for one in FOUR)
    assert done(scored, changed) == done(left, changed) == 0
    scored.folder.detail("a").write_bytes(b"\x00 garbage")
    scored.folder.checkpoint(AttemptKey(task_id="a", index=1)).write_bytes(b"[]")
    assert done(scored, FOUR) == 3


@pytest.mark.parametrize("k", [1, 2])
def test_attempts_beyond_the_new_runs_do_not_count(tmp_path: Path, k: int) -> None:
    measured(tmp_path / "one", parts(says_yes), attempts={"k": 2})
    store = RunStore(RunFolder(tmp_path / "one"))
    assert done(store, (sample("t1"),), attempts={"k": k}) == k


def test_an_agent_that_left_nothing_counts_nothing(tmp_path: Path) -> None:
    measured(tmp_path / "one", parts(failing(9, Code.MODEL_UNAVAILABLE)))
    assert done(RunStore(RunFolder(tmp_path / "one")), (sample("t1"),)) == 0
