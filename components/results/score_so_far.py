"""The headline over the attempts that ended so far, by the rules and formulas of metrics.json.

When all have ended it is the headline: what a display shows meanwhile leads there.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from agentcompass.components.contracts.attempt import AttemptRecord
from agentcompass.components.contracts.errors import Code
from agentcompass.components.contracts.run import Strategy
from agentcompass.components.contracts.task import Primary
from agentcompass.components.results.estimates import TaskValue, estimate
from agentcompass.components.results.metrics import headline_rule
from agentcompass.components.results.metrics_record import Aggregation, Estimate, Unscored
from agentcompass.components.results.observations import TaskOutcome

CUT_OFF = (Code.RUN_CANCELLED, Code.RUN_TIMEOUT, Code.RUN_STOPPED)
"""So fails what was running when the run ended early: it has not ended by itself."""


@dataclass
class _Seen:
    """Of one task."""

    ended: int = 0
    values: list[float] = field(default_factory=list)


class ScoreSoFar:
    """Takes each attempt as it ends (cheap), and computes when it is asked (some milliseconds
    for 10,000 tasks).

    A task counts from its first attempt on, and its mean is over those that ended. Under `pass`
    it counts once it is decided: solved, or all k attempts ended.
    """

    def __init__(
        self,
        categories: Mapping[str, str | None] = {},
        *,
        k: int = 1,
        strategy: Strategy = "avg",
        primary: Primary = "correct",
        unscored: Unscored = "zero",
        aggregation: Aggregation = "micro",
        score_range: tuple[float, float] | None = None,
    ) -> None:
        self._categories = dict(categories)
        self._k, self._strategy = k, strategy
        self._rule = headline_rule(k, strategy, primary, score_range)
        self._over_planned, self._aggregation = unscored == "zero", aggregation
        self._seen: dict[str, _Seen] = {}
        self._values: dict[str, TaskValue] = {}
        self._any_score = False

    def add(self, record: AttemptRecord) -> None:
        if record.status == "skipped" or (record.failure and record.failure.code in CUT_OFF):
            return
        task_id = record.key.task_id
        seen = self._seen.setdefault(task_id, _Seen())
        seen.ended += 1
        if record.status == "scored" and record.value is not None:
            seen.values.append(record.value)
            self._any_score = True
        value = self._value(task_id, seen)
        if value is not None:
            category = self._categories.get(task_id)
            self._values[task_id] = TaskValue(value, category, seen.ended)

    def estimate(self) -> Estimate:
        values = tuple(self._values.values()) if self._any_score else ()
        rule = self._rule
        return estimate(values, self._aggregation, rule.kind, "no score", rule.bounds)

    def _value(self, task_id: str, seen: _Seen) -> float | None:
        """None: nothing can be said of the task yet."""
        one_by_one = self._strategy == "avg"
        task = TaskOutcome(
            task_id, None, seen.ended if one_by_one else self._k, (), tuple(seen.values)
        )
        if not self._over_planned:
            return self._rule.scored(task)
        decided = one_by_one or seen.ended == self._k or 1.0 in seen.values
        return self._rule.planned(task) if decided else None
