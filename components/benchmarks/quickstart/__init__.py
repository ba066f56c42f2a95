"""Small tasks of our own: questions about files, code to mend, repositories to patch.

The tasks are the files under `tasks/`; their form is told in `_task_file.py`.
"""

from functools import cached_property
from pathlib import Path

from agentcompass.components.benchmarks import _task_stages
from agentcompass.components.benchmarks._judge import judge_tests
from agentcompass.components.benchmarks._task_file import TaskFile, data_set, solution, task_files
from agentcompass.components.benchmarks._text_answer import same_answer, short_answer
from agentcompass.components.contracts.attempt import Evidence, Note, Submission, Verdict
from agentcompass.components.contracts.errors import AgentCompassError, Code, Phase
from agentcompass.components.contracts.parameters import BenchmarkParameters
from agentcompass.components.contracts.protocols import ArtifactDesk, Component
from agentcompass.components.contracts.sandbox import Environment
from agentcompass.components.contracts.task import (
    Dataset,
    Primary,
    Sample,
    Solution,
    Task,
    Verification,
)

TASKS = Path(__file__).parent / "tasks"


class QuickstartParameters(BenchmarkParameters):
    """Nothing beside what every benchmark has."""


class Quickstart:
    """A task counts as solved when its answer is right, or all its hidden tests pass."""

    primary: Primary = "correct"
    score_range = (0.0, 1.0)
    verification: Verification = "fresh"
    needs_sandbox = True
    prepares_grading = False

    def __init__(self, parameters: QuickstartParameters) -> None:
        self.parameters = parameters

    def load(self, data_dir: Path) -> Dataset:
        return data_set(task_files(TASKS))

    async def prepare(self, task: Task, env: Environment) -> None:
        await _task_stages.prepare(self._files[task.id], env)

    async def collect(
        self, task: Task, env: Environment | None, submission: Submission, desk: ArtifactDesk
    ) -> Submission:
        if env is None:
            return submission
        return await _task_stages.collect(self._files[task.id], env, submission, desk)

    async def verify(
        self, sample: Sample, submission: Submission, env: Environment | None, desk: ArtifactDesk
    ) -> Verdict:
        file = self._files[sample.task.id]
        if file.kind == "answer":
            return _judged_answer(submission, sample.answer_key.value["answers"])
        if _task_stages.unchanged(file, submission, desk):
            return Verdict(correct=False, notes=(_empty("nothing was changed"),))
        if env is None:
            raise AgentCompassError(Code.GRADER_CRASHED, "the hidden tests need a sandbox")
        await _task_stages.restore(file, env, submission, desk)
        judgement = await judge_tests(env, file.hidden_tests, file.test_timeout_seconds)
        return Verdict(correct=judgement.share == 1, evidence=judgement.tests)

    def solution(self, sample: Sample) -> Solution:
        return solution(self._files[sample.task.id])

    @cached_property
    def _files(self) -> dict[str, TaskFile]:
        return {file.id: file for file in task_files(TASKS)}


def _judged_answer(submission: Submission, accepted: list[str]) -> Verdict:
    message = submission.answer or ""
    if not message.strip():
        return Verdict(correct=False, notes=(_empty("there is no answer"),))
    given = short_answer(message)
    correct = any(same_answer(given, answer) for answer in accepted)
    evidence = Evidence(name="answer", passed=correct, text=f"{given[:200]!r} for {accepted[0]!r}")
    return Verdict(correct=correct, evidence=(evidence,))


def _empty(message: str) -> Note:
    return Note(code=Code.SUBMISSION_EMPTY, phase=Phase.SCORE, message=message)


COMPONENT = Component(version="2", create=Quickstart, parameters=QuickstartParameters)
