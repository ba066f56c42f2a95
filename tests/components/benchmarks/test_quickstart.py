import asyncio
from collections import Counter
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest

from agentcompass.components.benchmarks._task_file import TaskFile, task_files
from agentcompass.components.benchmarks.quickstart import (
    COMPONENT,
    TASKS,
    Quickstart,
    QuickstartParameters,
)
from agentcompass.components.contracts.errors import AgentCompassError, Code
from agentcompass.components.contracts.sandbox import Environment
from agentcompass.components.contracts.task import Sample, Solution
from tests.components.benchmarks.sandboxes import path_with, sandbox
from tests.conformance.benchmark import BenchmarkConformance, Tried, attempt, play

BENCHMARK = Quickstart(QuickstartParameters())
SAMPLES = {sample.task.id: sample for sample in BENCHMARK.load(Path()).samples}


class TestQuickstart(BenchmarkConformance):
    component = COMPONENT

    def sandbox(self) -> AbstractAsyncContextManager[Environment]:
        return sandbox()


def worked(sample: Sample, command: str, answer: str | None = None) -> Tried:
    async def act(env: Environment) -> None:
        result = await env.exec(command)
        assert result.ok, result.stderr

    return asyncio.run(attempt(BENCHMARK, sample, sandbox, act, answer))


def test_there_are_tasks_of_every_kind_in_two_categories() -> None:
    kinds = Counter(file.kind for file in task_files(TASKS))
    assert kinds["answer"] >= 4
    assert kinds["files"] >= 4
    assert kinds["repository"] >= 4
    assert {sample.task.category for sample in SAMPLES.values()} == {"analysis", "code"}


def test_the_tests_of_every_code_task_fail_before_the_work() -> None:
    """Beyond "nothing changed is empty": an unrelated change does not score either."""
    for file in task_files(TASKS):
        if file.kind != "answer":
            tried = worked(SAMPLES[file.id], "echo x >unrelated.txt")
            assert tried.verdict.correct is False, file.id
            assert tried.verdict.notes == (), file.id
            assert any(test.passed is False for test in tried.verdict.evidence)


def test_no_hidden_test_or_answer_is_in_the_prepared_workdir() -> None:
    async def texts(sample: Sample) -> bytes:
        async with sandbox() as env:
            await BENCHMARK.prepare(sample.task, env)
            return b"\0".join(file.content for file in (await env.capture(".")).files)

    for file in task_files(TASKS):
        found = asyncio.run(texts(SAMPLES[file.id]))
        for answer in file.answers if file.id != "slowest-endpoint" else ():
            assert answer.encode() not in found, file.id
        for line in file.hidden_tests.splitlines():
            if len(line.strip()) > 25 and "unittest" not in line:
                assert line.strip().encode() not in found, (file.id, line)


def test_an_answer_may_stand_in_a_file() -> None:
    sample = SAMPLES["stock-value"]
    right = sample.answer_key.value["answers"][0]
    assert worked(sample, f"echo 'ANSWER: {right}' >answer.txt").verdict.correct is True
    assert worked(sample, f"echo '{right}' >answer.txt").verdict.correct is True
    wrong = worked(sample, f"echo '{right}' >answer.txt", answer="ANSWER: 3")
    assert wrong.verdict.correct is False  # what was said counts
    for said in ("I wrote the line to answer.txt.", "I counted.\n\nDone.", "ANSWER:"):
        told = worked(sample, f"echo 'ANSWER: {right}' >answer.txt", answer=said)
        assert told.verdict.correct is True, said
    assert worked(sample, "echo >answer.txt", answer=right).verdict.correct is True


@pytest.mark.parametrize(
    ("amount", "correct"),
    [("1,823.23 EUR", True), ("\u20ac1,823.23", True), ("1823.23 \u20ac", True), ("1823.23", True)]
    + [("$1823.23", False), ("1823.23%", False), ("1823.24 EUR", False)],
)
def test_an_amount_in_any_spelling_of_its_currency(amount: str, correct: bool) -> None:
    tried = worked(SAMPLES["march-refunds"], "true", answer=f"ANSWER: {amount}")
    assert tried.verdict.correct is correct


def test_a_folder_is_no_answer_file() -> None:
    sample = SAMPLES["stock-value"]
    assert worked(sample, "mkdir answer.txt").verdict.correct is False


def test_work_in_pieces_of_a_repository_counts_as_a_whole() -> None:
    sample = SAMPLES["unsafe-template"]
    solution = BENCHMARK.solution(sample)
    for command in (
        "true",
        "git add safe.py",
        "git add safe.py && git commit -qm new && git tag done",
        "git checkout -q -b mine && git add -A && git commit -qm all",
    ):
        tried = asyncio.run(
            play(BENCHMARK, sample, Solution(files=solution.files, command=command), sandbox)
        )
        assert tried.verdict.correct is True, command
        assert [artifact.name for artifact in tried.submission.artifacts] == ["patch.diff"]


def test_only_what_was_left_in_the_workdir_is_graded() -> None:
    sample = SAMPLES["merge-intervals"]
    [content] = BENCHMARK.solution(sample).files.values()
    lines = content.decode()
    removed = worked(sample, f"cat >fixed.py <<'END'\n{lines}END\nrm booking.py\n")
    assert removed.verdict.correct is False
    assert [a.path for a in removed.submission.artifacts] == ["fixed.py"]
    moved = worked(
        sample,
        f"cat >booking.py <<'END'\n{lines}END\nmkdir -p __pycache__ .claude big\n"
        "touch __pycache__/x.pyc .claude/log; ln -s /etc/passwd link; mkfifo pipe",
    )
    assert moved.verdict.correct is True
    assert [a.path for a in moved.submission.artifacts] == ["booking.py"]
    assert {code for code, _ in moved.desk.notes} == {Code.ARTIFACT_LIMIT}
    assert {text.partition(":")[0] for _, text in moved.desk.notes} == {"link", "pipe"}


def test_a_repository_without_git_is_a_failed_set_up(tmp_path: Path) -> None:
    async def run() -> None:
        async with sandbox(path_with(tmp_path / "bin", "sh")) as env:
            await BENCHMARK.prepare(SAMPLES["pagination"].task, env)

    with pytest.raises(AgentCompassError, match="needs git in the sandbox") as failed:
        asyncio.run(run())
    assert failed.value.code is Code.ENVIRONMENT_SETUP


def test_a_task_file_that_lacks_a_part_is_refused_by_name() -> None:
    part = {"id": "x", "category": "c", "instruction": "i", "content_hash": "h", "solution": {}}
    for kind in ("answer", "files", "repository"):
        with pytest.raises(ValueError, match="x: a task of kind"):
            TaskFile.model_validate({**part, "kind": kind})


@pytest.mark.parametrize("task", ["merge-intervals", "pagination"])
def test_a_removed_workdir_is_an_empty_submission_and_no_excuse(task: str) -> None:
    gone = worked(SAMPLES[task], 'cd /; rm -rf "$OLDPWD"')
    assert gone.verdict.correct is False
    assert (Code.SUBMISSION_EMPTY, "the working directory is gone") in gone.desk.notes
