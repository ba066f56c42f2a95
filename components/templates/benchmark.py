"""An example: words to be written backwards; this line is what `agentcompass list` shows."""

import hashlib
import json
from pathlib import Path

from agentcompass.components.contracts.attempt import Evidence, Note, Submission, Verdict
from agentcompass.components.contracts.errors import Code, Phase
from agentcompass.components.contracts.parameters import BenchmarkParameters
from agentcompass.components.contracts.protocols import ArtifactDesk, Component
from agentcompass.components.contracts.sandbox import Environment
from agentcompass.components.contracts.task import (
    AnswerKey,
    Dataset,
    Primary,
    Sample,
    Solution,
    Task,
    Verification,
)

WORDS = {"short": ("cat", "river"), "long": ("benchmark", "extraordinary")}
"""Category → tasks. Yours may come from a file, or from a hub into `data_dir`."""


class ExampleParameters(BenchmarkParameters):
    """Each field is a key of --benchmark-params; its docstring is its documentation."""

    ignore_case: bool = True
    """`TAC` is as good as `tac`."""


class Example:
    primary: Primary = "correct"  # or "score": then `verify` sets `score`, within `score_range`
    score_range = (0.0, 1.0)
    verification: Verification = "none"  # `verify` needs no sandbox
    needs_sandbox = False  # nor do `prepare` and `collect`
    prepares_grading = False

    def __init__(self, parameters: ExampleParameters) -> None:
        self._parameters = parameters

    def load(self, data_dir: Path) -> Dataset:
        """All tasks, in a stable order; selecting is not yours. What the agent must not see is in
        the answer key."""
        samples = tuple(
            Sample(
                task=Task(
                    id=f"reverse-{word}",
                    instruction=f"Write the word {word!r} backwards. Answer with that word alone.",
                    category=category,
                ),
                answer_key=AnswerKey(value={"answer": word[::-1]}),
                content_hash=_sha256(f"{word} {category}"),
            )
            for category, words in WORDS.items()
            for word in words
        )
        return Dataset(samples=samples, source="built in", content_hash=_sha256(json.dumps(WORDS)))

    async def prepare(self, task: Task, env: Environment) -> None:
        """Put the task's files into the sandbox, where there is one."""

    async def collect(
        self, task: Task, env: Environment | None, submission: Submission, desk: ArtifactDesk
    ) -> Submission:
        """Add what stands in the sandbox (`desk.save`); here the final text is all there is."""
        return submission

    async def verify(
        self, sample: Sample, submission: Submission, env: Environment | None, desk: ArtifactDesk
    ) -> Verdict:
        expected = str(sample.answer_key.value["answer"])
        given = (submission.answer or "").strip()
        if not given:
            nothing = Note(
                code=Code.SUBMISSION_EMPTY, phase=Phase.SCORE, message="there is no answer"
            )
            return Verdict(correct=False, notes=(nothing,))
        correct = given == expected
        if self._parameters.ignore_case:
            correct = given.casefold() == expected.casefold()
        evidence = Evidence(name="answer", passed=correct, text=f"{given!r} for {expected!r}")
        return Verdict(correct=correct, evidence=(evidence,))

    def solution(self, sample: Sample) -> Solution:
        """What the harness `oracle` answers: it must score full, or the benchmark is broken."""
        return Solution(answer=str(sample.answer_key.value["answer"]))


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


COMPONENT = Component(version="1", create=Example, parameters=ExampleParameters)
