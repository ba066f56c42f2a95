"""How far a run is, for the console, `progress.json` and the Prefect page."""

from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from typing import Literal

from agentcompass.components.contracts.frozen import Frozen
from agentcompass.components.contracts.usage import Usage


class Progress(Frozen):
    """Counts of logical attempts; planned = running + waiting + scored + unscored + skipped."""

    schema_version: Literal[2] = 2
    state: Literal["running", "finished", "failed", "timed_out", "interrupted"] = "running"
    planned: int
    running: int = 0
    pausing: int = 0
    """Of those that wait: failed, and pausing before another try."""
    scored: int = 0
    unscored: int = 0
    skipped: int = 0
    taken_over: int = 0
    """Of those that ended: taken over from an earlier run."""
    value_sum: float = 0.0
    """Sum of the primary over the scored attempts."""
    score: float | None = None
    """The headline (docs/metrics.md) over the attempts that ended; None: nothing is scored yet."""
    interval95: tuple[float, float] | None = None
    """Of `score`, as in metrics.json; None: too little ended."""
    unscored_by_owner: dict[str, int] = {}
    usage: Usage = Usage()
    """Of the attempts that ended."""
    expected_seconds_left: float | None = None
    """From how long attempts of this run took; None: too few ended, or nothing is left."""
    started_at: datetime
    updated_at: datetime

    @property
    def ended(self) -> int:
        return self.scored + self.unscored + self.skipped

    @property
    def waiting(self) -> int:
        return self.planned - self.running - self.ended


def summed(parts: Sequence[Progress]) -> Progress:
    """Several runs as one: running as long as one of them runs. Scores do not add."""
    owners: Counter[str] = Counter()
    for part in parts:
        owners.update(part.unscored_by_owner)
    states = [part.state for part in parts]
    return Progress(
        state="running" if "running" in states else max(states, key=_WORST.index),
        planned=sum(part.planned for part in parts),
        running=sum(part.running for part in parts),
        pausing=sum(part.pausing for part in parts),
        scored=sum(part.scored for part in parts),
        unscored=sum(part.unscored for part in parts),
        skipped=sum(part.skipped for part in parts),
        taken_over=sum(part.taken_over for part in parts),
        value_sum=sum(part.value_sum for part in parts),
        unscored_by_owner=dict(owners),
        usage=sum((part.usage for part in parts), Usage()),
        expected_seconds_left=_longest(parts),
        started_at=min(part.started_at for part in parts),
        updated_at=max(part.updated_at for part in parts),
    )


def _longest(parts: Sequence[Progress]) -> float | None:
    """They go on side by side: the last to end decides. Unknown if that of one is."""
    going_on = [part for part in parts if part.state == "running" and part.ended < part.planned]
    rest = [part.expected_seconds_left for part in going_on]
    known = [seconds for seconds in rest if seconds is not None]
    return max(known) if known and len(known) == len(rest) else None


_WORST = ("running", "finished", "timed_out", "failed", "interrupted")


class Outcome(Frozen):
    """How a run ended, for whoever started it."""

    run_dir: str
    state: Literal["finished", "failed", "timed_out", "interrupted"]
    planned: int
    scored: int
    skipped: int
    problem: str = ""
    """Why it failed, one line; "" when it finished."""
    signal: int | None = None
    """What interrupted it."""

    @property
    def exit_code(self) -> int:
        """0 all planned attempts scored, 1 something is unscored, 4 failed, 128 + its number for
        a signal (130 Ctrl-C, 143 SIGTERM)."""
        if self.state == "finished":
            return 0 if self.scored + self.skipped == self.planned else 1
        return 128 + (self.signal or 2) if self.state == "interrupted" else 4
