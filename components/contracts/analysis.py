"""What an analyzer is shown of a finished run, and what it says."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import Field

from agentcompass.components.contracts.attempt import AttemptRecord, Detail
from agentcompass.components.contracts.frozen import Frozen
from agentcompass.components.contracts.trajectory import Step, Trajectory

Weight = Literal["info", "warning", "serious"]
"""`info`: worth knowing; `warning`: cost something, or looks wrong; `serious`: look at it."""

Stake = Literal["nothing", "lost", "won"]
"""What of the attempts' points depends on it: those they lost, those they won, or none."""


@dataclass(frozen=True, eq=False)
class FinishedAttempt:
    """One attempt with all that is known of it. Never a skipped one."""

    detail: Detail
    """Of its task; holds the other attempts' records, too."""
    record: AttemptRecord
    trajectory: Trajectory | None = None
    """Of the execution that counts; None: the agent never ran, or the file cannot be read."""

    @property
    def task_id(self) -> str:
        return self.record.key.task_id

    @property
    def steps(self) -> tuple[Step, ...]:
        return self.trajectory.steps if self.trajectory else ()


class Finding(Frozen):
    """One thing about one attempt: an attempt has at most one of each kind and analyzer."""

    kind: str
    task_id: str
    attempt: int | None = None
    """1..k; None: the task as a whole."""
    steps: tuple[int, ...] = ()
    """`step_id`s in its trajectory; the first ones where there are many."""
    evidence: str
    """What a person needs to see to believe it; cut when long."""
    severity: Weight


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


class AnalyzerParameters(Frozen):
    """What every analyzer takes; its own model extends this one."""

    examples: Annotated[int, Field(ge=0)] = 3
    """So many attempts are shown for each kind of finding; the JSON file holds all of them."""
