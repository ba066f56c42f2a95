"""Numbers to be written in Roman numerals; the key is made by a library of its own."""

import hashlib
from pathlib import Path

from agentcompass.components.contracts.attempt import Submission, Verdict
from agentcompass.components.contracts.parameters import BenchmarkParameters
from agentcompass.components.contracts.protocols import ArtifactDesk, Component
from agentcompass.components.contracts.sandbox import Environment
from agentcompass.components.contracts.task import AnswerKey, Dataset, Sample, Solution, Task


class RomanParameters(BenchmarkParameters):
    numbers: tuple[int, ...] = (4, 12)
    """The tasks."""


class RomanNumbers:
    primary = "correct"
    score_range = (0.0, 1.0)
    verification = "none"
    needs_sandbox = False
    prepares_grading = False

    def __init__(self, parameters: RomanParameters) -> None:
        self._parameters = parameters

    def load(self, data_dir: Path) -> Dataset:
        import roman

        samples = tuple(
            Sample(
                task=Task(id=str(number), instruction=f"Write {number} in Roman numerals."),
                answer_key=AnswerKey(value={"answer": roman.toRoman(number)}),
                content_hash=hashlib.sha256(str(number).encode()).hexdigest(),
            )
            for number in self._parameters.numbers
        )
        return Dataset(samples=samples, source="built in", content_hash="0" * 64)

    async def prepare(self, task: Task, env: Environment) -> None:
        """Nothing to put in place."""

    async def collect(
        self, task: Task, env: Environment | None, submission: Submission, desk: ArtifactDesk
    ) -> Submission:
        return submission

    async def verify(
        self, sample: Sample, submission: Submission, env: Environment | None, desk: ArtifactDesk
    ) -> Verdict:
        return Verdict(correct=submission.answer == sample.answer_key.value["answer"])

    def solution(self, sample: Sample) -> Solution:
        return Solution(answer=str(sample.answer_key.value["answer"]))


COMPONENT = Component(
    version="1",
    create=RomanNumbers,
    parameters=RomanParameters,
    requires=("roman",),
    extra="numbers",
)
