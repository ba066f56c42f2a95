"""GSM8K: grade-school word problems, judged by the final number."""

import hashlib
from pathlib import Path

from agentcompass.components.benchmarks._number_answer import final_number
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
from agentcompass.components.datasets.hub import HubSource
from agentcompass.components.datasets.records import load_records, rows_hash

HUB = HubSource("openai/gsm8k", "main/test-*.parquet")
COLUMNS = {"question": str, "answer": str}
INSTRUCTION = """\
Solve the following problem. You may reason step by step.
End with a line of this form, holding nothing but the number:
#### <number>

{question}
"""


class Gsm8kParameters(BenchmarkParameters):
    data_path: str | None = None
    """A local .jsonl, .jsonl.gz, .json or .parquet file with the columns `question` and `answer`;
    unset: openai/gsm8k (config main, split test) from the hub, kept under `--data-dir`."""
    revision: str | None = None
    """Commit, branch or tag of the hub data set; unset: the copy at hand, else the newest."""


class Gsm8k:
    """Each record is a task; the gold number stands after `####` in its `answer`."""

    primary: Primary = "correct"
    score_range = (0.0, 1.0)
    verification: Verification = "none"
    needs_sandbox = False
    prepares_grading = False

    def __init__(self, parameters: Gsm8kParameters) -> None:
        self.parameters = parameters

    def load(self, data_dir: Path) -> Dataset:
        records = load_records(
            HUB,
            COLUMNS,
            data_dir,
            data_path=self.parameters.data_path,
            revision=self.parameters.revision,
        )
        for number, row in enumerate(records.rows):
            if "####" not in row["answer"] or final_number(row["answer"]) is None:
                raise records.wrong(number, "column 'answer' has no number after ####")
        ids: dict[str, int] = {}
        return Dataset(
            samples=tuple(_sample(r["question"], r["answer"], ids) for r in records.rows),
            source=records.source,
            revision=records.revision,
            content_hash=records.content_hash,
        )

    async def prepare(self, task: Task, env: Environment) -> None:
        """Nothing: the question is the whole task."""

    async def collect(
        self, task: Task, env: Environment | None, submission: Submission, desk: ArtifactDesk
    ) -> Submission:
        return submission

    async def verify(
        self, sample: Sample, submission: Submission, env: Environment | None, desk: ArtifactDesk
    ) -> Verdict:
        answer = submission.answer or ""
        found, gold = final_number(answer), final_number(sample.answer_key.value["answer"])
        notes = () if answer.strip() else (_EMPTY,)
        return Verdict(
            correct=found is not None and found == gold,
            evidence=(
                Evidence(name="number", passed=found == gold, text=f"{found} for {gold}"[:200]),
            ),
            notes=notes,
        )

    def solution(self, sample: Sample) -> Solution:
        return Solution(answer=sample.answer_key.value["answer"])


_EMPTY = Note(code=Code.SUBMISSION_EMPTY, phase=Phase.SCORE, message="there is no answer")


def _sample(question: str, answer: str, ids: dict[str, int]) -> Sample:
    """The id is made from the question's text alone; the n-th record of equal text gets `-n`."""
    # JSON may hold half a character; it has an id like any other.
    digest = hashlib.sha256(question.encode("utf-8", "surrogatepass")).hexdigest()[:10]
    ids[digest] = ids.get(digest, 0) + 1
    task_id = f"gsm8k-{digest}" + (f"-{ids[digest]}" if ids[digest] > 1 else "")
    instruction = INSTRUCTION.format(question=question.strip())
    return Sample(
        task=Task(id=task_id, instruction=instruction),
        answer_key=AnswerKey(value={"answer": answer}),
        content_hash=rows_hash([{"instruction": instruction, "answer": answer}]),
    )


COMPONENT = Component(version="2", create=Gsm8k, parameters=Gsm8kParameters)
