"""A benchmark's items. A harness receives a Task, never a Sample with its AnswerKey."""

from collections.abc import Mapping
from typing import Any, Literal

from agentcompass.components.contracts.frozen import Frozen
from agentcompass.components.contracts.requirements import Requirements

Primary = Literal["correct", "score"]
Verification = Literal["none", "reuse", "fresh"]


class Task(Frozen):
    """What the agent may know."""

    id: str
    """Stable and unique in its benchmark; follows the record, never its position."""
    instruction: str
    """The complete prompt: what to do, and the form of the answer."""
    category: str | None = None
    requirements: Requirements = Requirements()
    verification: Verification | None = None
    """Where it is judged (see Benchmark); None: as the benchmark's tasks are."""
    grading: Requirements | None = None
    """What a fresh sandbox for its grader is opened with; None: `requirements`."""
    setup_timeout_seconds: float | None = None
    """The task's own limit on opening and preparing its sandbox; None: the run's default."""
    run_timeout_seconds: float | None = None
    """The task's own limit on the agent's work; None: the run's default."""
    evaluation_timeout_seconds: float | None = None
    metadata: Mapping[str, Any] = {}
    """Facts the agent may see; nothing of the answer."""


class AnswerKey(Frozen):
    """Evaluator side only: whatever the benchmark's `verify` and `solution` need."""

    value: Mapping[str, Any]


class Sample(Frozen):
    task: Task
    answer_key: AnswerKey
    content_hash: str
    """sha256 over all that can change this task's result: prompt, files, tests, key."""


class Solution(Frozen):
    """A known-good way to solve a task, for the `oracle` harness. Set what applies."""

    answer: str | None = None
    files: Mapping[str, bytes] = {}
    """Paths relative to the workdir → content."""
    command: str | None = None
    """Shell command run in the workdir after the files are written."""


class Dataset(Frozen):
    """What `Benchmark.load` returns."""

    samples: tuple[Sample, ...]
    source: str
    """Where the data came from: a hub id, a file name, or "built in"."""
    revision: str | None = None
    """The source's own revision (commit), where it has one."""
    content_hash: str
    """sha256 of the raw data."""
