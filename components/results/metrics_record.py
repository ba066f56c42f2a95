"""The shape of metrics.json: every number of a run's summary."""

from datetime import datetime
from typing import Literal

from agentcompass.components.contracts.attempt import PhaseTimes
from agentcompass.components.contracts.errors import Code, Owner, Severity
from agentcompass.components.contracts.frozen import Frozen
from agentcompass.components.contracts.run import Strategy
from agentcompass.components.contracts.task import Primary
from agentcompass.components.contracts.usage import Usage

Over = Literal["planned", "scored"]
Unscored = Literal["zero", "exclude"]
Aggregation = Literal["micro", "macro"]


class Estimate(Frozen):
    """A mean over tasks with its uncertainty. What is missing is None, and `note` says why."""

    value: float | None
    """None: no score, or not available."""
    n_tasks: int
    """Tasks the value is the mean over."""
    n_attempts: int
    """Attempts those tasks contribute."""
    standard_error: float | None = None
    """Clustered by task."""
    interval95: tuple[float, float] | None = None
    interval_method: str | None = None
    note: str | None = None


class Metric(Frozen):
    """One metric in both counts: with and without the attempts that have no score."""

    name: str
    definition: str
    planned: Estimate
    """Every planned attempt counts; one without a score as 0 or false."""
    scored: Estimate
    """Only what was scored counts."""


class Headline(Estimate):
    """The one number of the run."""

    name: str
    over: Over
    definition: str


class ExtraMetric(Estimate):
    """The mean of another observation of the benchmark, over the attempts that carry it."""

    name: str


MISSING_NAMED = 100


class MissingAttempts(Frozen):
    """Attempts of a task that were planned and never ended."""

    task_id: str
    indexes: tuple[int, ...]
    """The first MISSING_NAMED of them; Coverage.missing counts all."""


class Coverage(Frozen):
    """How much of the plan has a score. planned = scored + unscored + skipped + missing."""

    planned_tasks: int
    scored_tasks: int
    """Tasks with at least one score."""
    planned_attempts: int
    scored: int
    unscored: int
    """Ended without a valid score."""
    skipped: int
    """Not needed any more (`pass`: after the first success)."""
    missing: int
    """Never ended."""
    missing_attempts: tuple[MissingAttempts, ...] = ()
    fraction: float | None
    """scored / (planned - skipped); None if nothing was planned."""

    @property
    def lacking(self) -> int:
        """Attempts that should have a score and have none."""
        return self.unscored + self.missing


class Outcomes(Frozen):
    """Disjoint classes that sum to the planned attempts."""

    correct: int | None = None
    """Binary primary only."""
    incorrect: int | None = None
    scored: int | None = None
    """Scalar primary only."""
    unscored: dict[str, int] = {}
    """By failure code."""
    skipped: int
    missing: int


class Example(Frozen):
    task_id: str
    index: int
    message: str
    """First line, cut."""


class CodeCount(Frozen):
    """How often something happened: attempts that failed by a code, or carry its note."""

    code: Code
    owner: Owner
    severity: Severity
    meaning: str
    attempts: int
    tasks: int
    examples: tuple[Example, ...] = ()


class TakenOver(Frozen):
    """Attempts whose result is another run's (`--reuse`, `rescore`)."""

    run_id: str
    attempts: int


class CategoryMetrics(Frozen):
    """The same numbers for the tasks of one category."""

    category: str | None
    """None: tasks without a category."""
    headline: Headline
    metrics: tuple[Metric, ...]
    coverage: Coverage
    outcomes: Outcomes


class Metrics(Frozen):
    """Every number of a run. Independent of the order in which attempts ended."""

    schema_version: Literal[2] = 2
    k: int
    strategy: Strategy
    primary: Primary
    unscored: Unscored
    aggregation: Aggregation
    headline: Headline
    metrics: tuple[Metric, ...]
    """The first is the headline's, in both counts."""
    coverage: Coverage
    outcomes: Outcomes
    failures: tuple[CodeCount, ...] = ()
    """Why attempts are unscored: most frequent first."""
    failures_by_owner: dict[Owner, int] = {}
    """Unscored attempts by whose fault it was."""
    warnings: tuple[CodeCount, ...] = ()
    """Notes on attempts, scored or not; an attempt may carry several."""
    timed_out: int = 0
    """Attempts whose agent ran out of time; their scores count."""
    categories: tuple[CategoryMetrics, ...] = ()
    """Empty if no task has a category."""
    extra: tuple[ExtraMetric, ...] = ()
    taken_over: tuple[TakenOver, ...] = ()
    """By the run they come from. All other numbers are those of taken over and own attempts."""
    own_usage: Usage | None = None
    """Of `usage`, without what was taken over; None: nothing was, or it is not known."""
    usage: Usage = Usage()
    cost_partial: bool = False
    """`usage.cost_usd` lacks the calls whose price is unknown."""
    tokens_partial: bool = False
    """The token sums lack calls that reported none."""
    times: PhaseTimes = PhaseTimes()
    """Sums over attempts. `run_seconds` holds `waiting_seconds`, `model_seconds` does not."""
    started_at: datetime | None = None
    """The first attempt's start."""
    ended_at: datetime | None = None
    """The last attempt's end."""
