"""What a rescored run keeps is told as what it is: a verdict of the grader that gave it."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from agentcompass.components.contracts.attempt import AttemptKey, AttemptRecord, Submission, Verdict
from agentcompass.components.contracts.run import Rescore
from agentcompass.components.contracts.task import Sample
from agentcompass.components.execution import judged_again
from agentcompass.components.execution.board import Board
from agentcompass.components.execution.open_run import OpenRun
from agentcompass.components.execution.parts import Parts
from agentcompass.components.execution.schedule import units, work_through
from agentcompass.components.execution.source import finished
from agentcompass.components.execution.unit import run_unit
from agentcompass.components.results.masking import Masker
from agentcompass.components.results.paths import RunFolder
from agentcompass.components.results.store import RunStore
from tests.components.execution.measured import measured, plan
from tests.components.execution.stages import Directly
from tests.standins.parts import YesBenchmark, parts, sample, says_yes


def grader(version: int) -> dict[str, Any]:
    return {"benchmark": {"version": str(version)}}


def first_run(folder: Path, made_of: Parts, masker: Masker | None = None, **settings: Any) -> None:
    """By version 1 of the grader."""
    measured(folder, made_of, **settings)
    store = RunStore(RunFolder(folder), masker or Masker())
    samples: Sequence[Sample] = made_of.benchmark.samples  # type: ignore[attr-defined]
    k = plan(**settings).request.execution.attempts.k
    for detail, one in zip(list(store.details()), samples, strict=True):
        store.save_records(one.task, k, one.content_hash, detail.attempts)
    _write_run(store, grader(1), samples, **settings)


def _write_run(
    store: RunStore, known: object, samples: Sequence[Sample], more: Any = None, **settings: Any
) -> None:
    document = {"fingerprint": known, "tasks": [one.task.id for one in samples]}
    store.write_run({**document, "plan": plan(**settings).model_dump(mode="json"), **(more or {})})


def rescored(
    folder: Path, source: Path, made_of: Parts, version: int, masker: Any = None, **settings: Any
) -> tuple[OpenRun, list[AttemptRecord]]:
    planned, samples = plan(**settings), made_of.benchmark.samples  # type: ignore[attr-defined]
    asked = planned.request.model_copy(update={"rescore": Rescore(run_dir=str(source))})
    planned = planned.model_copy(update={"request": asked})
    folder.mkdir()
    store = RunStore(RunFolder(folder), masker or Masker())
    attempts = planned.request.execution.attempts
    board = Board(len(samples) * attempts.k)
    run = OpenRun(planned, made_of, grader(version), store, board, Directly())
    judged_again.take_over(run, RunStore(RunFolder(source)), samples)

    async def everything() -> None:
        todo, stop = units(samples, attempts), asyncio.Event()
        await work_through(todo, 2, lambda unit: run_unit(unit, run), stop=stop, timeout_seconds=9)

    asyncio.run(everything())
    _write_run(store, grader(version), samples, run.provenance, **settings)
    return run, [record for detail in store.details() for record in detail.attempts]


def wrong(verification: str = "none", samples: Sequence[Sample] = ()) -> YesBenchmark:
    benchmark = YesBenchmark(verification, samples)

    async def verdict() -> Verdict | None:
        return Verdict(correct=False)

    benchmark.on_verify = verdict
    return benchmark


@pytest.mark.parametrize("version", [1, 2])
def test_a_kept_verdict_is_taken_over_only_by_a_run_of_its_own_grader(
    tmp_path: Path, version: int
) -> None:
    one, two, three = (tmp_path / name for name in ("one", "two", "three"))
    first_run(one, parts(says_yes, wrong("reuse")))
    now = parts(says_yes, YesBenchmark("reuse"))
    rescored(two, one, now, version)
    _, (record,) = rescored(three, two, now, version)  # what was kept twice is no newer for it
    assert record.value == 0.0
    for source in (two, three):
        asked: list[int] = []

        async def act(log: Any, asked: list[int] = asked) -> Submission:
            asked.append(1)
            return Submission(answer="yes")

        made_of = parts(act, YesBenchmark("reuse"))
        _, (record,) = measured(tmp_path / f"from-{source.name}", made_of, source)
        own = version == 1
        assert (record.value, len(asked)) == ((0.0, 0) if own else (1.0, 1))
        count = finished(
            RunStore(RunFolder(source)),
            plan(),
            lambda task: "reuse",
            now.benchmark.samples,  # type: ignore[attr-defined]
        )
        assert count == own


def test_an_outcome_of_a_task_as_it_was_is_recorded_as_such(tmp_path: Path) -> None:
    """`pass`: what is not needed of such a task is recorded beside what is kept."""
    settings = {"attempts": {"k": 2, "strategy": "pass"}}
    first_run(tmp_path / "one", parts(says_yes, YesBenchmark("reuse")), **settings)
    was = sample("t1")
    task = was.task.model_copy(update={"instruction": "Say something else."})
    for number, changed in enumerate(
        [
            was.model_copy(update={"content_hash": "f" * 64}),
            was.model_copy(update={"content_hash": "f" * 64, "task": task}),
        ]
    ):
        made_of = parts(says_yes, YesBenchmark("reuse", [changed]))
        folder = tmp_path / f"two-{number}"
        _, records = rescored(folder, tmp_path / "one", made_of, 1, **settings)
        assert [record.status for record in records] == ["scored", "skipped"]
        detail = RunStore(RunFolder(folder)).read_detail("t1")
        assert detail is not None
        assert (detail.content_hash, detail.instruction) == (was.content_hash, was.task.instruction)


def test_a_verdict_kept_beside_others_given_anew_is_not_of_todays_task(tmp_path: Path) -> None:
    settings = {"attempts": {"k": 2}}
    first_run(tmp_path / "one", parts(says_yes, wrong()), **settings)
    RunFolder(tmp_path / "one").checkpoint(AttemptKey(task_id="t1", index=1)).unlink()
    changed = sample("t1").model_copy(update={"content_hash": "f" * 64})
    now = parts(says_yes, YesBenchmark(samples=[changed]))
    _, records = rescored(tmp_path / "two", tmp_path / "one", now, 1, **settings)
    assert [record.value for record in records] == [0.0, 1.0]
    run, records = measured(tmp_path / "three", now, tmp_path / "two", **settings)
    assert [(record.value, record.origin) for record in records] == [(1.0, None), (1.0, "one")]


@pytest.mark.parametrize("known_now", [True, False])
def test_a_text_with_a_masked_word_in_it_is_no_other_text(tmp_path: Path, known_now: bool) -> None:
    word = Masker(["yes to t1"])
    first_run(tmp_path / "one", parts(says_yes, wrong()), word)
    detail = RunStore(RunFolder(tmp_path / "one")).read_detail("t1")
    assert detail is not None
    assert detail.instruction == "Say ***."
    now = parts(says_yes, YesBenchmark())
    masker = word if known_now else None
    _, (record,) = rescored(tmp_path / "two", tmp_path / "one", now, 2, masker)
    assert record.value == 1.0, "judged again"
