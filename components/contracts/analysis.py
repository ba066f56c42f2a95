"""What an analyzer is shown of a finished run, and what it says."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import Field

from agentcompass.components.contracts.attempt import AttemptRecord, Detail
from agentcompass.components.contracts.frozen import Frozen
from agentcompass.components.contracts.run import ModelSpec
from agentcompass.components.contracts.trajectory import Step, Trajectory

Weight = Literal["info", "warning", "serious"]
"""`info`: worth knowing; `warning`: cost something, or looks wrong; `serious`: look at it."""

Stake = Literal["nothing", "lost", "won"]
"""What of the attempts' points depends on it: those they lost, those they won, or none."""


@dataclass(frozen=True, eq=False)
class FinishedAttempt:
    """One attempt, or an earlier try of one, with all that is known of it. Never a skipped one."""

    detail: Detail
    """Of its task; holds the other attempts' records, too. Of an earlier try: its own alone."""
    record: AttemptRecord
    """Of an earlier try: what is known of it, unscored; its usage is part of the attempt's."""
    trajectory: Trajectory | None = None
    """None: the agent never ran, or the file cannot be read."""
    earlier_try: int | None = None
    """Its number, if this try does not count because the attempt was made again."""

    @property
    def task_id(self) -> str:
        return self.record.key.task_id

    @property
    def steps(self) -> tuple[Step, ...]:
        return self.trajectory.steps if self.trajectory else ()


class Checked(Frozen):
    """What a model says to a finding of the rules. The finding stands, whatever it says."""

    verdict: Literal["confirmed", "refuted", "unsure"]
    use: Literal["used", "looked", "neither", "unclear"]
    """Whether it went into the agent's work; `unclear`: the model's answer could not be read."""
    reason: str
    """One sentence; cut when long."""
    model: str


class Finding(Frozen):
    """One thing about one attempt: an attempt has at most one of each kind and analyzer, and so
    has each earlier try of it."""

    kind: str
    task_id: str
    attempt: int | None = None
    """1..k; None: the task as a whole."""
    steps: tuple[int, ...] = ()
    """`step_id`s in its trajectory; the first ones where there are many."""
    evidence: str
    """What a person needs to see to believe it; cut when long."""
    severity: Weight
    earlier_try: int | None = None
    """It is about this try of the attempt, which does not count; None: about the one that does."""
    checked: Checked | None = None
    """Filled in by the model check, where one was asked for."""


class Advice(Frozen):
    """What a person should do, and the attempts it is about."""

    action: str
    """An imperative, one sentence."""
    reason: str
    attempts: tuple[tuple[str, int | None], ...]
    """Task id and index; None: all attempts of the task."""
    stake: Stake = "nothing"
    urgent: bool = False
    """Comes first, whatever it costs."""


class Report(Frozen):
    """An analyzer's word: findings and numbers for machines, Markdown for people."""

    findings: tuple[Finding, ...] = ()
    numbers: Mapping[str, Any] = {}
    advice: tuple[Advice, ...] = ()
    markdown: str = ""
    """Its section of analysis.md, without a heading; empty: nothing to tell."""
    suspicious: Mapping[str, str] = {}
    """Kinds that speak of cheating, and what each says, in words: a model may be asked about
    such findings, where they name steps."""


class AnalyzerParameters(Frozen):
    """What every analyzer takes; its own model extends this one."""

    examples: Annotated[int, Field(ge=0)] = 3
    """So many attempts are shown for each kind of finding; the JSON file holds all of them."""


class ModelCheck(Frozen):
    """A second look at suspicious findings by a model; made only where it is asked for."""

    model: ModelSpec
    """Whom to ask; its key by reference."""
    max_findings: Annotated[int, Field(ge=1)] = 50
    """So many findings of a run are shown to it, the gravest; each is one call."""
    max_chars: Annotated[int, Field(ge=4_000)] = 12_000
    """Longest excerpt of a transcript in one call."""
    neighbours: Annotated[int, Field(ge=0)] = 1
    """So many steps before and after each step of the finding are shown, too."""
    concurrency: Annotated[int, Field(ge=1)] = 4
    """Calls at once."""
    timeout_seconds: Annotated[float, Field(gt=0)] = 600
    """For all calls together; what has no answer by then goes without."""
