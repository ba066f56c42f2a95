"""What metrics need to know of each attempt, taken out of the details and put in a fixed order."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from agentcompass.components.contracts.attempt import AttemptRecord, Detail, Note
from agentcompass.components.contracts.errors import Code, Phase, RequestError
from agentcompass.components.contracts.run import Strategy
from agentcompass.components.contracts.task import Primary

Planned = Sequence[str] | Mapping[str, str | None]
"""The ids of the planned tasks, or id → category."""


@dataclass(frozen=True)
class TaskOutcome:
    """A planned task and the attempts of it that ended, by index."""

    task_id: str
    category: str | None
    k: int
    attempts: tuple[AttemptRecord, ...]
    """Light: without submissions and evidence."""
    values: tuple[float, ...]
    """The primary of the scored attempts, by index."""
    stopped: bool = False
    """Stopped at its first success (`pass`): what has not begun is skipped, not missing."""

    @property
    def skipped(self) -> int:
        not_begun = self._not_ended if self.stopped else 0
        return not_begun + sum(record.status == "skipped" for record in self.attempts)

    @property
    def missing(self) -> int:
        return 0 if self.stopped else self._not_ended

    def first_missing(self, most: int) -> tuple[int, ...]:
        """The indexes of the first of them."""
        if self.stopped:
            return ()
        ended = {record.key.index for record in self.attempts}
        return tuple(islice((n for n in range(1, self.k + 1) if n not in ended), most))

    @property
    def _not_ended(self) -> int:
        return self.k - len(self.attempts)


def gather(
    details: Iterable[Detail], planned: Planned, k: int, strategy: Strategy, primary: Primary
) -> list[TaskOutcome]:
    """Every planned task, by id, whatever order the details come in.

    Raises RequestError("results") for details that do not belong to the plan: they would change
    the denominator unseen.
    """
    if k < 1:
        raise RequestError("k", f"must be at least 1, not {k}")
    categories = dict(planned) if isinstance(planned, Mapping) else dict.fromkeys(planned)
    if not isinstance(planned, Mapping) and len(categories) != len(planned):
        raise RequestError("results", "a task was planned twice")
    found: dict[str, TaskOutcome] = {}
    for detail in details:
        if detail.task_id not in categories:
            raise RequestError("results", f"task {detail.task_id!r} has a detail, but no plan")
        if detail.task_id in found:
            raise RequestError("results", f"task {detail.task_id!r} has two details")
        found[detail.task_id] = _outcome(detail, k, strategy, primary)
    return [
        found.get(task_id) or TaskOutcome(task_id, categories[task_id], k, (), ())
        for task_id in sorted(categories)
    ]


def failure_of(record: AttemptRecord) -> Note:
    """Why an attempt is unscored; one that does not say is our own fault."""
    return record.failure or Note(
        code=Code.FRAMEWORK_UNEXPECTED, phase=Phase.SCORE, message="no reason was recorded"
    )


def _outcome(detail: Detail, k: int, strategy: Strategy, primary: Primary) -> TaskOutcome:
    attempts = tuple(sorted(map(_light, detail.attempts), key=lambda record: record.key.index))
    indexes = [record.key.index for record in attempts]
    if len(set(indexes)) != len(indexes) or any(not 1 <= index <= k for index in indexes):
        raise RequestError(
            "results", f"task {detail.task_id!r} has the attempts {indexes}, planned are 1..{k}"
        )
    values = tuple(_value(record, primary) for record in attempts if record.status == "scored")
    stopped = strategy == "pass" and 1.0 in values
    return TaskOutcome(detail.task_id, detail.category, k, attempts, values, stopped)


def _value(record: AttemptRecord, primary: Primary) -> float:
    verdict = record.verdict
    value = None if verdict is None else getattr(verdict, primary)
    if value is None:
        raise RequestError("results", f"{record.key} is marked scored but has no `{primary}`")
    return float(value)


def _light(record: AttemptRecord) -> AttemptRecord:
    """Without what may be large, so that all attempts of a run fit in memory."""
    verdict = record.verdict and record.verdict.model_copy(update={"evidence": ()})
    return record.model_copy(update={"submission": None, "verdict": verdict})
