"""One try at one task: its key, what it left, how it was judged, and the record of it all."""

from datetime import datetime
from typing import Literal

from agentcompass.components.contracts.errors import POLICIES, Code, Phase, Severity
from agentcompass.components.contracts.frozen import Frozen
from agentcompass.components.contracts.usage import Usage


class AttemptKey(Frozen):
    task_id: str
    index: int
    """1..k."""
    physical: int = 1
    """1 for the first execution; a retry makes 2, 3, …"""

    def __str__(self) -> str:
        return f"{self.task_id} #{self.index}"


class Artifact(Frozen):
    """A file kept beside the attempt's records, addressed by name under `artifacts/`."""

    name: str
    """Relative POSIX path under `artifacts/`, already safe."""
    path: str
    """Where it stood in the sandbox, relative to the workdir; "" if it was made by us."""
    sha256: str
    size_bytes: int
    mode: int = 0o644


class Note(Frozen):
    """Something that went wrong or is worth knowing, with its policy in the error table."""

    code: Code
    phase: Phase
    message: str

    @property
    def severity(self) -> Severity:
        return POLICIES[self.code].severity


class Submission(Frozen):
    """What the agent leaves behind."""

    answer: str | None = None
    """The final text, for benchmarks judged by an answer."""
    stop_reason: str = "finished"
    """The harness's own word for why it ended (`finished`, `step_limit`, …)."""
    artifacts: tuple[Artifact, ...] = ()
    """Files captured by the benchmark's `collect`: outputs, a patch."""


class PhaseTimes(Frozen):
    """Wall seconds by phase; None: the phase was not reached."""

    setup_seconds: float | None = None
    run_seconds: float | None = None
    collect_seconds: float | None = None
    score_seconds: float | None = None
    model_seconds: float | None = None
    """Within the run phase: spent inside model calls, waiting apart."""
    waiting_seconds: float = 0.0
    """Within the run phase: back-off after failed calls and queueing for the model's rate limits;
    not the agent's work time."""


class Checkpoint(Frozen):
    """Everything scoring needs, written after the agent ended and before it is judged."""

    schema_version: Literal[2] = 2
    key: AttemptKey
    content_hash: str
    """Of the task it was made for."""
    submission: Submission
    notes: tuple[Note, ...] = ()
    """Warnings of the agent's stage."""
    timed_out: bool = False
    usage: Usage = Usage()
    times: PhaseTimes = PhaseTimes()
    started_at: datetime
    ended_at: datetime
    harness_version: str | None = None
    """Version of the agent library or program that really ran, where there is one."""
    image: str | None = None
    """The agent's sandbox was made from it: `name@sha256:…` or an image id; None: no image."""


class Evidence(Frozen):
    """One reason for a verdict a person can check: a test's outcome, an output, a comparison."""

    name: str
    passed: bool | None = None
    text: str = ""


class Verdict(Frozen):
    """The grader's word. Exactly the benchmark's primary is set; checked on arrival."""

    correct: bool | None = None
    score: float | None = None
    metrics: dict[str, float | bool] = {}
    """Extra observations beside the primary."""
    evidence: tuple[Evidence, ...] = ()
    notes: tuple[Note, ...] = ()


AttemptStatus = Literal["scored", "unscored", "skipped"]


class AttemptRecord(Frozen):
    """The outcome of one logical attempt."""

    schema_version: Literal[2] = 2
    key: AttemptKey
    status: AttemptStatus
    verdict: Verdict | None = None
    failure: Note | None = None
    """Why it is unscored; None otherwise."""
    notes: tuple[Note, ...] = ()
    """Warnings, and the agent's error when a later one became the failure."""
    submission: Submission | None = None
    timed_out: bool = False
    usage: Usage = Usage()
    times: PhaseTimes = PhaseTimes()
    started_at: datetime | None = None
    ended_at: datetime | None = None
    harness_version: str | None = None
    image: str | None = None
    """As in Checkpoint."""
    earlier_failures: tuple[Note, ...] = ()
    """Why earlier tries of this attempt were made again; their usage is in `usage`."""
    origin: str | None = None
    """The run whose result this is, if it was taken over from another run."""

    @property
    def value(self) -> float | None:
        """The primary as a number: 1.0/0.0 for `correct`, else `score`; None if unscored."""
        if self.verdict is None:
            return None
        if self.verdict.correct is not None:
            return float(self.verdict.correct)
        return self.verdict.score


class Detail(Frozen):
    """The complete record of a task: all its attempts so far."""

    schema_version: Literal[2] = 2
    task_id: str
    category: str | None = None
    instruction: str
    content_hash: str
    planned: int
    """k."""
    attempts: tuple[AttemptRecord, ...] = ()
    """By index; a missing index has not ended yet."""
