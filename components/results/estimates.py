"""From one value per task to a mean with its uncertainty, by task or by category."""

from collections.abc import Sequence
from typing import Literal, NamedTuple

from agentcompass.components.results.metrics_record import Aggregation, Estimate
from agentcompass.components.results.statistics import (
    clustered_standard_error,
    mean,
    stratified_standard_error,
    t_interval,
    variance,
    wilson,
)

Kind = Literal["binary", "share", "number"]
"""A task's value is one yes or no (0, 1), a share of such, or any number."""

Bounds = tuple[float, float]
"""The least and the most that a value can be."""


class TaskValue(NamedTuple):
    value: float
    category: str | None
    attempts: int
    """Attempts behind the value."""


def estimate(
    values: Sequence[TaskValue],
    aggregation: Aggregation,
    kind: Kind,
    missing: str,
    bounds: Bounds | None = None,
) -> Estimate:
    """The mean over tasks (`micro`) or of the categories' means (`macro`).

    The interval: Wilson's where each task is one yes or no, else Student's t over the tasks'
    values, cut to `bounds` (None: nothing is known). `missing` says why there is no value if
    there are no tasks.
    """
    if not values:
        return Estimate(value=None, n_tasks=0, n_attempts=0, note=missing)
    counts = {"n_tasks": len(values), "n_attempts": sum(value.attempts for value in values)}
    numbers = (
        _by_task([value.value for value in values], kind, bounds)
        if aggregation == "micro" or len({value.category for value in values}) == 1
        else _by_category(values, bounds)
    )
    return Estimate.model_validate({**counts, **numbers})


def _by_task(values: Sequence[float], kind: Kind, bounds: Bounds | None) -> dict[str, object]:
    count, centre = len(values), mean(values)
    error = clustered_standard_error(values)
    found: dict[str, object] = {"value": centre, "standard_error": error}
    if kind == "binary":
        interval = wilson(sum(value == 1.0 for value in values), count)
        found |= {"interval95": interval, "interval_method": "Wilson"}
        if error is None:
            found["note"] = "no standard error: it needs at least 2 tasks"
    elif error is None:
        found["note"] = "no standard error, no interval: they need at least 2 tasks"
    elif variance(values) == 0:
        found["note"] = "no interval: all tasks have the same value"
    else:
        interval = t_interval(centre, error, count - 1)
        found |= _cut(interval, "Student's t over tasks", bounds)
    return found


def _by_category(values: Sequence[TaskValue], bounds: Bounds | None) -> dict[str, object]:
    groups: dict[str | None, list[float]] = {}
    for value in values:
        groups.setdefault(value.category, []).append(value.value)
    # Sorted, so that no sum depends on the order of tasks.
    strata = [groups[name] for name in sorted(groups, key=lambda name: (name is None, name or ""))]
    centre = mean([mean(stratum) for stratum in strata])
    uncertainty = stratified_standard_error(strata)
    if uncertainty is None:
        few = any(len(stratum) < 2 for stratum in strata)
        reason = "some category has only 1 task" if few else "all tasks of a category are equal"
        return {"value": centre, "note": f"no standard error, no interval: {reason}"}
    error, freedom = uncertainty
    interval = t_interval(centre, error, freedom)
    method = "Student's t over tasks within categories (Welch-Satterthwaite)"
    return {"value": centre, "standard_error": error, **_cut(interval, method, bounds)}


def _cut(interval: tuple[float, float], method: str, bounds: Bounds | None) -> dict[str, object]:
    low, high = interval
    least, most = bounds or interval
    if low >= least and high <= most:
        return {"interval95": interval, "interval_method": method}
    return {
        "interval95": (max(low, least), min(high, most)),
        "interval_method": f"{method}, cut to {least:g}..{most:g}",
    }
