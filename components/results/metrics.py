"""A run's numbers from its details: pure, and independent of the order in which attempts ended.

How attempts without a score count (they ended without one, or never ended):
- planned: every planned attempt counts, one without a score as 0 or false;
- scored: only scored attempts count, and a task only where they decide the metric: for means a
  task with at least one score, for pass@j a task with at least j scores, for pass@k and pass^k
  under `avg` a task with all k scores. Under `pass` a success decides a task, whatever came
  before it, and so do k scores; skipped attempts are not missing.
The headline is over planned, or over scored where the benchmark's `unscored` is "exclude".
Without any score there is no value, in either count.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from agentcompass.components.contracts.attempt import Detail
from agentcompass.components.contracts.run import Strategy
from agentcompass.components.contracts.task import Primary
from agentcompass.components.results import statistics
from agentcompass.components.results.accounts import accounts
from agentcompass.components.results.estimates import Bounds, Kind, TaskValue, estimate
from agentcompass.components.results.metrics_record import (
    MISSING_NAMED,
    Aggregation,
    CategoryMetrics,
    Coverage,
    ExtraMetric,
    Headline,
    Metric,
    Metrics,
    MissingAttempts,
    Outcomes,
    Unscored,
)
from agentcompass.components.results.observations import Planned, TaskOutcome, failure_of, gather


def compute_metrics(
    details: Iterable[Detail],
    planned: Planned,
    *,
    k: int = 1,
    strategy: Strategy = "avg",
    primary: Primary = "correct",
    unscored: Unscored = "zero",
    aggregation: Aggregation = "micro",
    score_range: Bounds | None = None,
) -> Metrics:
    """All numbers of a run over its planned tasks (ids, or id → category).

    `score_range`: the benchmark's, to which the intervals of scores are cut; None: not known.
    Raises RequestError if details and plan do not fit together.
    """
    tasks = gather(details, planned, k, strategy, primary)
    rules = _rules(k, strategy, primary, score_range)
    metrics = _metrics(tasks, rules, aggregation)
    return Metrics(
        k=k,
        strategy=strategy,
        primary=primary,
        unscored=unscored,
        aggregation=aggregation,
        headline=_headline(metrics[0], unscored, aggregation),
        metrics=metrics,
        coverage=_coverage(tasks),
        outcomes=_outcomes(tasks, primary),
        categories=_categories(tasks, rules, primary, unscored),
        extra=_extra(tasks, aggregation),
        timed_out=sum(record.timed_out for task in tasks for record in task.attempts),
        **accounts([record for task in tasks for record in task.attempts])._asdict(),
    )


@dataclass(frozen=True)
class Rule:
    """A metric as two functions of one task."""

    name: str
    definition: str
    planned: Callable[[TaskOutcome], float]
    scored: Callable[[TaskOutcome], float | None]
    """None: this task's scores do not decide it."""
    needs: str
    """What a task must have to count in `scored`."""
    kind: Kind
    bounds: Bounds | None = (0.0, 1.0)


def headline_rule(
    k: int, strategy: Strategy, primary: Primary, score_range: Bounds | None = None
) -> Rule:
    return _rules(k, strategy, primary, score_range)[0]


def _rules(k: int, strategy: Strategy, primary: Primary, score_range: Bounds | None) -> list[Rule]:
    """The metrics of a run, the headline's first."""
    if strategy == "pass":
        return [_any_success(k, lambda task: len(task.values) == k or _successes(task) > 0)]
    binary = primary == "correct"
    bounds: Bounds | None = (0.0, 1.0)
    if not binary:  # an attempt without a score counts as 0, wherever the scores begin
        bounds = score_range and (min(score_range[0], 0.0), max(score_range[1], 0.0))
    if k == 1:
        kind: Kind = "binary" if binary else "number"
        return [_mean("native@1", f"mean over tasks of `{primary}`", kind, bounds)]
    definition = f"mean over tasks of each task's mean of `{primary}` over {k} attempts"
    rules = [_mean(f"avg@{k}", definition, "share" if binary else "number", bounds)]
    if binary:
        rules.append(_any_success(k, lambda task: len(task.values) == k))
        rules.append(_all_successes(k))
        rules.extend(_pass_at(j) for j in shown_below(k))
    return rules


def shown_below(k: int) -> list[int]:
    """The j < k whose pass@j is told: up to 10 each, then powers of two and 1-2-5 steps.

    A number for every j costs as much as all attempts together, and nobody reads a thousand.
    """
    steps = {factor * 10**power for power in range(1, len(str(k))) for factor in (1, 2, 5)}
    doublings = {2**power for power in range(k.bit_length())}
    return sorted(j for j in steps | doublings | set(range(1, 11)) if j < k)


def _mean(name: str, definition: str, kind: Kind, bounds: Bounds | None) -> Rule:
    return Rule(
        name,
        definition,
        lambda task: statistics.mean(task.values, of=task.k),
        lambda task: statistics.mean(task.values) if task.values else None,
        "a score",
        kind,
        bounds,
    )


def _any_success(k: int, decided: Callable[[TaskOutcome], bool]) -> Rule:
    return Rule(
        f"pass@{k}",
        f"share of tasks with at least one success among the {k} attempts",
        lambda task: float(_successes(task) > 0),
        lambda task: float(_successes(task) > 0) if decided(task) else None,
        f"{k} scores",
        "binary",
    )


def _all_successes(k: int) -> Rule:
    return Rule(
        f"pass^{k}",
        f"share of tasks solved in all {k} attempts",
        lambda task: float(_successes(task) == k),
        lambda task: float(_successes(task) == k) if len(task.values) == k else None,
        f"{k} scores",
        "binary",
    )


def _pass_at(j: int) -> Rule:
    return Rule(
        f"pass@{j}",
        f"chance that one of {j} attempts succeeds: unbiased estimate 1 - C(n-c, {j}) / C(n, {j}) "
        "from n attempts with c successes, mean over tasks",
        lambda task: statistics.pass_at(task.k, _successes(task), j) or 0.0,
        lambda task: statistics.pass_at(len(task.values), _successes(task), j),
        f"{j} scores",
        "share",
    )


def _successes(task: TaskOutcome) -> int:
    return sum(value == 1.0 for value in task.values)


def _metrics(
    tasks: Sequence[TaskOutcome], rules: Sequence[Rule], aggregation: Aggregation
) -> tuple[Metric, ...]:
    any_score = any(task.values for task in tasks)
    metrics = []
    for rule in rules:
        planned, scored = [], []
        for task in tasks if any_score else ():
            needed = task.k - task.skipped
            planned.append(TaskValue(rule.planned(task), task.category, needed))
            if (value := rule.scored(task)) is not None:
                scored.append(TaskValue(value, task.category, len(task.values)))
        missing = f"no task has {rule.needs}" if any_score else "no score"
        metrics.append(
            Metric(
                name=rule.name,
                definition=rule.definition,
                planned=estimate(planned, aggregation, rule.kind, missing, rule.bounds),
                scored=estimate(scored, aggregation, rule.kind, missing, rule.bounds),
            )
        )
    return tuple(metrics)


def _headline(metric: Metric, unscored: Unscored, aggregation: Aggregation) -> Headline:
    over, chosen = ("planned", metric.planned) if unscored == "zero" else ("scored", metric.scored)
    counted = "count as 0" if unscored == "zero" else "are left out"
    macro = ", as the mean of the categories' means" if aggregation == "macro" else ""
    definition = f"{metric.definition}{macro}; attempts without a score {counted}"
    return Headline.model_validate(
        {**chosen.model_dump(), "name": metric.name, "over": over, "definition": definition}
    )


def _coverage(tasks: Sequence[TaskOutcome]) -> Coverage:
    records = [record for task in tasks for record in task.attempts]
    planned = sum(task.k for task in tasks)
    scored = sum(record.status == "scored" for record in records)
    skipped = sum(task.skipped for task in tasks)
    return Coverage(
        planned_tasks=len(tasks),
        scored_tasks=sum(bool(task.values) for task in tasks),
        planned_attempts=planned,
        scored=scored,
        unscored=sum(record.status == "unscored" for record in records),
        skipped=skipped,
        missing=sum(task.missing for task in tasks),
        missing_attempts=tuple(
            MissingAttempts(task_id=task.task_id, indexes=task.first_missing(MISSING_NAMED))
            for task in tasks
            if task.missing
        ),
        fraction=scored / (planned - skipped) if planned > skipped else None,
    )


def _outcomes(tasks: Sequence[TaskOutcome], primary: Primary) -> Outcomes:
    values = [value for task in tasks for value in task.values]
    codes = [
        failure_of(record).code.value
        for task in tasks
        for record in task.attempts
        if record.status == "unscored"
    ]
    binary = primary == "correct"
    return Outcomes(
        correct=sum(value == 1.0 for value in values) if binary else None,
        incorrect=sum(value != 1.0 for value in values) if binary else None,
        scored=None if binary else len(values),
        unscored={code: codes.count(code) for code in sorted(set(codes))},
        skipped=sum(task.skipped for task in tasks),
        missing=sum(task.missing for task in tasks),
    )


def _categories(
    tasks: Sequence[TaskOutcome], rules: Sequence[Rule], primary: Primary, unscored: Unscored
) -> tuple[CategoryMetrics, ...]:
    names = {task.category for task in tasks}
    if names <= {None}:
        return ()
    found = []
    for name in sorted(names, key=lambda name: (name is None, name or "")):
        members = [task for task in tasks if task.category == name]
        metrics = _metrics(members, rules, "micro")
        found.append(
            CategoryMetrics(
                category=name,
                headline=_headline(metrics[0], unscored, "micro"),
                metrics=metrics,
                coverage=_coverage(members),
                outcomes=_outcomes(members, primary),
            )
        )
    return tuple(found)


def _extra(tasks: Sequence[TaskOutcome], aggregation: Aggregation) -> tuple[ExtraMetric, ...]:
    """Per task the mean over the scored attempts that carry the observation, then over tasks."""
    by_name: dict[str, list[TaskValue]] = {}
    for task in tasks:
        seen: dict[str, list[float]] = {}
        for record in task.attempts:
            if record.status == "scored" and record.verdict is not None:
                for name, value in record.verdict.metrics.items():
                    seen.setdefault(name, []).append(float(value))
        for name, values in seen.items():
            mean = statistics.mean(values)
            by_name.setdefault(name, []).append(TaskValue(mean, task.category, len(values)))
    return tuple(
        ExtraMetric(name=name, **estimate(by_name[name], aggregation, "number", "").model_dump())
        for name in sorted(by_name)
    )
