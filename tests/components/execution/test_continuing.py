"""A run is gone on with in its own folder: one run, whose earlier tries are paid for and told."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agentcompass.components.contracts.attempt import AttemptKey, Submission, Verdict
from agentcompass.components.contracts.errors import AgentCompassError, Code, RequestError
from agentcompass.components.contracts.requirements import Requirements
from agentcompass.components.contracts.sandbox import SandboxLabel
from agentcompass.components.contracts.usage import Usage
from agentcompass.components.results.paths import RunFolder
from agentcompass.components.results.store import RunStore
from tests.components.execution.measured import failing, measured
from tests.standins.parts import Boxes, YesBenchmark, parts, sample, says_yes

DOWN = Code.MODEL_UNAVAILABLE


def contents(folder: Path) -> dict[str, bytes]:
    return {str(p): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def answering(answers: dict[str, str | None], asked: list[str]) -> Any:
    """An agent that notes whom it was asked for; None: its model is down."""

    async def act(log: Any) -> Submission:
        task = log.trajectory().extra["task_id"]
        asked.append(task)
        answer = answers[task]
        if answer is None:
            raise AgentCompassError(DOWN, "down")
        return Submission(answer=answer)

    return act


def test_what_is_unscored_is_made_again_and_the_rest_is_not_touched(tmp_path: Path) -> None:
    asked: list[str] = []
    answers: dict[str, str | None] = {"a": "yes", "b": "no", "c": None}
    benchmark = YesBenchmark(samples=[sample(name) for name in "abc"])
    measured(tmp_path, parts(answering(answers, asked), benchmark))
    before = contents(tmp_path)
    answers.update(a="no", c="yes")
    asked.clear()
    run, records = measured(tmp_path, parts(answering(answers, asked), benchmark), again=True)
    assert asked == ["c"]
    assert {r.key.task_id: (r.value, r.key.physical, r.origin) for r in records} == {
        "a": (1.0, 1, None),
        "b": (0.0, 1, None),
        "c": (1.0, 2, None),
    }
    assert [note.code for note in records[2].earlier_failures] == [DOWN]
    changed = {name for name, content in before.items() if Path(name).read_bytes() != content}
    assert changed == {str(RunFolder(tmp_path).detail("c"))}
    assert (run.board.progress.scored, run.board.progress.unscored) == (3, 0)


def test_each_execution_of_the_run_has_its_own_retries_and_all_are_told(tmp_path: Path) -> None:
    always = parts(failing(99, DOWN))
    measured(tmp_path, always, max_retries=1)
    _, (record,) = measured(tmp_path, always, again=True, max_retries=1)
    assert (record.key.physical, len(record.earlier_failures)) == (4, 3)
    _, (record,) = measured(tmp_path, parts(says_yes), again=True, max_retries=1)
    assert (record.value, record.key.physical, len(record.earlier_failures)) == (1.0, 5, 4)


def test_a_failed_judging_is_judged_again_and_costs_nothing_more(tmp_path: Path) -> None:
    broken = YesBenchmark()

    async def breaks() -> Verdict | None:
        raise AgentCompassError(Code.GRADER_TIMEOUT, "planted")

    broken.on_verify = breaks
    measured(tmp_path, parts(says_yes, broken))
    store = RunStore(RunFolder(tmp_path))
    key = AttemptKey(task_id=broken.samples[0].task.id, index=1)
    detail = store.read_detail(key.task_id)
    assert detail is not None
    spent = Usage(calls=7, output_tokens=70)
    paid = detail.attempts[0].model_copy(update={"usage": spent})
    store.save_record(broken.samples[0].task, 1, broken.samples[0].content_hash, paid)
    asked: list[str] = []
    answers: dict[str, str | None] = {key.task_id: "no"}
    _, (record,) = measured(tmp_path, parts(answering(answers, asked)), again=True)
    assert (record.value, record.key.physical, asked) == (1.0, 1, [])
    assert [note.code for note in record.earlier_failures] == [Code.GRADER_TIMEOUT]
    assert record.usage == spent

    store.save_record(broken.samples[0].task, 1, broken.samples[0].content_hash, paid)
    RunFolder(tmp_path).checkpoint(key).unlink()  # then the agent works, and that is added
    _, (record,) = measured(tmp_path, parts(answering(answers, asked)), again=True)
    assert (record.value, record.key.physical, asked) == (0.0, 2, [key.task_id])
    assert record.usage == spent  # and nothing, which is what this agent costs


def test_a_try_that_was_killed_keeps_its_folder(tmp_path: Path) -> None:
    left = RunFolder(tmp_path).attempt_log(AttemptKey(task_id="t1", index=1))
    left.parent.mkdir(parents=True)
    left.write_text("cut off")
    _, (record,) = measured(tmp_path, parts(says_yes), again=True)
    assert record.key.physical == 2
    assert left.read_text() == "cut off"


@pytest.mark.parametrize("own_folder", [True, False])
def test_a_task_that_is_solved_needs_no_further_attempt(tmp_path: Path, own_folder: bool) -> None:
    """`pass`: the second attempt stands as the success; the first, unscored one is not needed."""
    settings: dict[str, Any] = {"attempts": {"k": 3, "strategy": "pass"}}
    _, records = measured(tmp_path / "one", parts(failing(1, DOWN)), **settings)
    assert [r.status for r in records] == ["unscored", "scored", "skipped"]
    asked: list[str] = []
    made_of = parts(answering({"t1": "yes"}, asked))
    if own_folder:
        run, records = measured(tmp_path / "one", made_of, again=True, **settings)
        assert [note.code for note in records[0].earlier_failures] == [DOWN]
    else:
        source = tmp_path / "one"
        run, records = measured(tmp_path / "two", made_of, source, **settings)
    assert [r.status for r in records] == ["skipped", "scored", "skipped"]
    assert asked == []
    progress = run.board.progress
    assert (progress.scored, progress.skipped, progress.waiting) == (1, 2, 0)


def test_a_success_made_now_leaves_a_later_attempt_that_stands(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"attempts": {"k": 3, "strategy": "pass"}}
    outcomes = iter([None, "no", None])

    async def act(log: Any) -> Submission:
        answer = next(outcomes)
        if answer is None:
            raise AgentCompassError(DOWN, "down")
        return Submission(answer=answer)

    _, records = measured(tmp_path, parts(act), **settings)
    assert [r.status for r in records] == ["unscored", "scored", "unscored"]
    run, records = measured(tmp_path, parts(says_yes), again=True, **settings)
    assert [(r.status, r.value) for r in records] == [
        ("scored", 1.0),
        ("scored", 0.0),
        ("skipped", None),
    ]
    assert run.board.progress.waiting == 0


def test_another_run_is_not_gone_on_with(tmp_path: Path) -> None:
    measured(tmp_path, parts(failing(9, DOWN)))
    store = RunStore(RunFolder(tmp_path))
    store.write_run({"fingerprint": {"harness": {"version": "1"}}})
    before = contents(tmp_path)
    with pytest.raises(RequestError, match=r'harness.version: "1" → null; start a new run'):
        measured(tmp_path, parts(says_yes), again=True)
    store.write_run({})
    changed = sample("t1").model_copy(update={"content_hash": "f" * 64})
    with pytest.raises(RequestError, match="task t1 of run .* changed since; start a new run"):
        measured(tmp_path, parts(says_yes, YesBenchmark(samples=[changed])), again=True)
    store.folder.run_json.unlink()
    assert {name: c for name, c in before.items() if "run.json" not in name} == contents(tmp_path)


class Pictures(Boxes):
    """A provider whose one image has a name that moves."""

    now = "picture@sha256:1"

    async def image_names(self, requirements: Requirements) -> frozenset[str]:
        return frozenset({self.now})

    @asynccontextmanager
    async def open(self, requirements: Requirements, label: SandboxLabel) -> AsyncIterator[Any]:
        async with super().open(requirements, label) as box:
            box.image = self.now
            yield box


def test_a_run_whose_image_moved_is_not_gone_on_with(tmp_path: Path) -> None:
    """One score is not made of attempts in two images; also not until they are replaced."""
    provider = Pictures()
    benchmark = YesBenchmark(samples=[sample("a"), sample("b")])
    answers: dict[str, str | None] = {"a": "yes", "b": None}
    made_of = replace(parts(answering(answers, []), benchmark), environments=provider)
    measured(tmp_path, made_of)
    before = contents(tmp_path)
    provider.now = "picture@sha256:2"
    with pytest.raises(RequestError, match="a #1 of run .* in image picture@sha256:1, and the"):
        measured(tmp_path, made_of, again=True)
    assert contents(tmp_path) == before
    provider.now, answers["b"] = "picture@sha256:1", "yes"
    _, records = measured(tmp_path, made_of, again=True)
    assert [record.value for record in records] == [1.0, 1.0]
