"""Small tasks of our own with partial credit: the share of hidden checks passed, or a measure.

The tasks are the files under `tasks/`; their form is told in `_task_file.py`. Hidden tests that
hold a function `grade()` give the score themselves; the others give the share that passed.
"""

from functools import cached_property
from pathlib import Path

from agentcompass.components.benchmarks import _task_stages
from agentcompass.components.benchmarks._judge import judge_grade, judge_tests, names_of_tests
from agentcompass.components.benchmarks._task_file import TaskFile, data_set, solution, task_files
from agentcompass.components.contracts.attempt import Evidence, Note, Submission, Verdict
from agentcompass.components.contracts.errors import AgentCompassError, Code, Phase
from agentcompass.components.contracts.parameters import BenchmarkParameters
from agentcompass.components.contracts.protocols import ArtifactDesk, Component
from agentcompass.components.contracts.reward import parse_reward
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


class QuickstartScoreParameters(BenchmarkParameters):
    """Nothing beside what every benchmark has."""


class QuickstartScore:
    """Each task gives a score from 0 to 1."""

    primary: Primary = "score"
    score_range = (0.0, 1.0)
    verification: Verification = "fresh"
    needs_sandbox = True
    prepares_grading = False

    def __init__(self, parameters: QuickstartScoreParameters) -> None:
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
        """Raises grader.invalid_reward if `grade()` returns what is no finite number."""
        file = self._files[sample.task.id]
        if _task_stages.unchanged(file, submission, desk):
            empty = Note(
                code=Code.SUBMISSION_EMPTY, phase=Phase.SCORE, message="nothing was changed"
            )
            return Verdict(score=0.0, notes=(empty,))
        if env is None:
            raise AgentCompassError(Code.GRADER_CRASHED, "the hidden tests need a sandbox")
        await _task_stages.restore(file, env, submission, desk)
        return await graded(env, file.hidden_tests, file.test_timeout_seconds)

    def solution(self, sample: Sample) -> Solution:
        return solution(self._files[sample.task.id])

    @cached_property
    def _files(self) -> dict[str, TaskFile]:
        return {file.id: file for file in task_files(TASKS)}


async def graded(env: Environment, tests: str, timeout_seconds: float) -> Verdict:
    """The verdict of hidden tests, of either form, on the workdir as it stands."""
    if names_of_tests(tests):
        judgement = await judge_tests(env, tests, timeout_seconds)
        return Verdict(score=judgement.share, evidence=judgement.tests)
    judgement = await judge_grade(env, tests, timeout_seconds)
    evidence = Evidence(name="grade", passed=None, text=judgement.text)
    score = 0.0 if judgement.reward is None else parse_reward(judgement.reward)
    return Verdict(score=score, evidence=(evidence,))


COMPONENT = Component(version="2", create=QuickstartScore, parameters=QuickstartScoreParameters)
