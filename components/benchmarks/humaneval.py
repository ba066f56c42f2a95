"""HumanEval: complete a Python function from its docstring; judged by hidden tests."""

import contextlib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

from pydantic import Field

from agentcompass.components.benchmarks._code_answer import defining_code, find_code
from agentcompass.components.benchmarks._judge import judge_function, printable
from agentcompass.components.contracts.attempt import Evidence, Note, Submission, Verdict
from agentcompass.components.contracts.errors import AgentCompassError, Code, Phase
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

HUB = HubSource("openai/openai_humaneval", "openai_humaneval/test-*.parquet")
COLUMNS = {name: str for name in ("task_id", "prompt", "entry_point", "canonical_solution", "test")}
SOLUTION_FILE = "solution.py"
SOLUTION_FILE_MAX_BYTES = 1024 * 1024
INSTRUCTION = """\
Complete the following Python function. Answer with the complete code, imports included, in one \
```python block.

```python
{prompt}```
"""


class HumanEvalParameters(BenchmarkParameters):
    data_path: str | None = None
    """A local .jsonl, .jsonl.gz, .json or .parquet file with the columns `task_id`, `prompt`,
    `entry_point`, `canonical_solution` and `test`; unset: openai/openai_humaneval (split test)
    from the hub, kept under `--data-dir`."""
    revision: str | None = None
    """Commit, branch or tag of the hub data set; unset: the copy at hand, else the newest."""
    test_timeout_seconds: Annotated[float, Field(gt=0, le=3600)] = 10
    """For a task's hidden tests, in which the submitted code runs; over it is incorrect."""


class HumanEval:
    """The answer's code is judged; if it defines nothing, a `solution.py` in the workdir.

    The judge calls the submitted function in a process of its own and compares there: a value
    that is no plain Python data equals nothing.
    """

    primary: Primary = "correct"
    score_range = (0.0, 1.0)
    verification: Verification = "fresh"
    needs_sandbox = False
    prepares_grading = False

    def __init__(self, parameters: HumanEvalParameters) -> None:
        self.parameters = parameters

    def load(self, data_dir: Path) -> Dataset:
        records = load_records(
            HUB,
            COLUMNS,
            data_dir,
            data_path=self.parameters.data_path,
            revision=self.parameters.revision,
        )
        seen: set[str] = set()
        for number, row in enumerate(records.rows):
            if row["task_id"] in seen:
                raise records.wrong(number, f"task_id {row['task_id']!r} stands there twice")
            seen.add(row["task_id"])
        return Dataset(
            samples=tuple(_sample(row) for row in records.rows),
            source=records.source,
            revision=records.revision,
            content_hash=records.content_hash,
        )

    async def prepare(self, task: Task, env: Environment) -> None:
        """Nothing: the prompt is the whole task."""

    async def collect(
        self, task: Task, env: Environment | None, submission: Submission, desk: ArtifactDesk
    ) -> Submission:
        """Take `solution.py` as the answer if the answer itself does not define the function."""
        entry_point, prompt = task.metadata["entry_point"], task.metadata["prompt"]
        if env is None or defining_code(submission.answer or "", entry_point, prompt):
            return submission
        with contextlib.suppress(OSError, ValueError):
            content = await env.read_file(SOLUTION_FILE, max_bytes=SOLUTION_FILE_MAX_BYTES)
            code = printable(content.decode("utf-8-sig", "replace"))
            return submission.model_copy(update={"answer": code})
        return submission

    async def verify(
        self, sample: Sample, submission: Submission, env: Environment | None, desk: ArtifactDesk
    ) -> Verdict:
        key, answer = sample.answer_key.value, submission.answer or ""
        if not answer.strip():
            note = Note(code=Code.SUBMISSION_EMPTY, phase=Phase.SCORE, message="there is no answer")
            return Verdict(correct=False, notes=(note,))
        code = find_code(answer, key["entry_point"], key["prompt"])
        if code is None:
            text = f"the answer holds no code that defines {key['entry_point']}"
            return Verdict(
                correct=False, evidence=(Evidence(name="code", passed=False, text=text),)
            )
        if env is None:
            raise AgentCompassError(Code.GRADER_CRASHED, "the hidden tests need a sandbox")
        judgement = await judge_function(
            env,
            prelude=key["prompt"],
            code=code,
            entry_point=key["entry_point"],
            tests=key["test"],
            timeout_seconds=self.parameters.test_timeout_seconds,
        )
        return Verdict(correct=judgement.share == 1, evidence=judgement.tests)

    def solution(self, sample: Sample) -> Solution:
        key = sample.answer_key.value
        return Solution(answer=f"```python\n{key['prompt']}{key['canonical_solution']}\n```\n")


def _sample(row: Mapping[str, str]) -> Sample:
    return Sample(
        task=Task(
            id=row["task_id"],
            instruction=INSTRUCTION.format(prompt=row["prompt"].rstrip("\n") + "\n"),
            metadata={"entry_point": row["entry_point"], "prompt": row["prompt"]},
        ),
        answer_key=AnswerKey(value=row),
        content_hash=rows_hash([{**row, "instruction": INSTRUCTION}]),
    )


COMPONENT = Component(version="2", create=HumanEval, parameters=HumanEvalParameters)
