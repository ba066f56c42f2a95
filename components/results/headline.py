"""The few lines that answer what the score is: the same on the console and in summary.md."""

from typing import NamedTuple

from agentcompass.components.contracts.attempt import PhaseTimes
from agentcompass.components.contracts.usage import Usage
from agentcompass.components.results.metrics_record import Estimate, Metrics
from agentcompass.components.results.numbers_shown import (
    count,
    format_cost,
    format_interval,
    format_number,
    format_seconds,
)

NO_SCORE = "without a score"
"""The label of what without_score says."""
LOW_COVERAGE = 0.9
"""Below this share of scored attempts the summary warns."""


class Line(NamedTuple):
    label: str
    value: str


def headline_lines(metrics: Metrics) -> list[Line]:
    """Score, the other count beside it, coverage, what has no score, cost, tokens, time."""
    headline, usage = metrics.headline, metrics.usage
    lines = [Line(headline.name, _value(headline))]
    if metrics.coverage.scored:
        lines += [
            Line("counted", f"over {headline.over} attempts: {_counted(headline)}"),
            Line("95 % interval", _interval(headline)),
            Line(*_beside(metrics)),
        ]
    lines.append(Line("coverage", _coverage(metrics)))
    if metrics.coverage.scored:  # else: without a score there is no other number either
        lines += [Line(m.name, _short(_chosen(metrics, m.name))) for m in metrics.metrics[1:]]
    lines += [Line(NO_SCORE, reason) for reason in without_score(metrics)]
    if metrics.timed_out:
        lines.append(Line("timed out", f"{count(metrics.timed_out, 'attempt')}, still graded"))
    if usage.calls:
        lines.append(Line("cost", format_cost(usage.cost_usd, metrics.cost_partial)))
    lines.append(Line("tokens", _tokens(usage)))
    if metrics.taken_over:
        lines.append(Line("taken over", _taken_over(metrics)))
    lines.append(Line("time", _time(metrics)))
    return lines


def headline_sentence(metrics: Metrics) -> str:
    """The number alone: `native@1 = 0.75 over 4 attempts`."""
    headline = metrics.headline
    if headline.value is None:
        return f"{headline.name}: {headline.note or 'no score'}"
    value = format_number(headline.value)
    return f"{headline.name} = {value} over {count(headline.n_attempts, 'attempt')}"


def without_score(metrics: Metrics) -> list[str]:
    """Every reason why a planned attempt has no score, with its count and how it counts."""
    coverage = metrics.coverage
    counted = _how_counted(metrics)
    reasons = [
        f"{count(item.attempts, 'attempt')}{counted}: {item.code} ({item.meaning}; "
        f"fault: {item.owner})"
        for item in metrics.failures
    ]
    if coverage.missing:
        names = [
            f"{entry.task_id} #{index}"
            for entry in coverage.missing_attempts
            for index in entry.indexes
        ]
        shown = ", ".join(names[:5]) + (", …" if coverage.missing > 5 else "")
        reasons.append(f"{count(coverage.missing, 'attempt')}{counted} never ended: {shown}")
    return reasons


def _how_counted(metrics: Metrics) -> str:
    """What an attempt without a score is in the headline; "" where that has no value itself."""
    if metrics.headline.value is None:
        return ""
    return " (counted as 0)" if metrics.headline.over == "planned" else " (not counted)"


def is_low(metrics: Metrics) -> bool:
    fraction = metrics.coverage.fraction
    return fraction is not None and fraction < LOW_COVERAGE


def _value(estimate: Estimate) -> str:
    return format_number(estimate.value, estimate.note or "no score")


def _counted(estimate: Estimate) -> str:
    return f"{count(estimate.n_tasks, 'task')}, {count(estimate.n_attempts, 'attempt')}"


def _interval(estimate: Estimate) -> str:
    if estimate.interval95 is None:
        return estimate.note or "-"
    error = format_number(estimate.standard_error)
    return f"{format_interval(estimate.interval95)} ({estimate.interval_method}; s.e. {error})"


def _beside(metrics: Metrics) -> tuple[str, str]:
    """The headline's metric in the other count."""
    over_planned = metrics.headline.over == "planned"
    other = metrics.metrics[0].scored if over_planned else metrics.metrics[0].planned
    label = "over scored" if over_planned else "over planned"
    return label, _short(other)


def _chosen(metrics: Metrics, name: str) -> Estimate:
    metric = next(metric for metric in metrics.metrics if metric.name == name)
    return metric.planned if metrics.headline.over == "planned" else metric.scored


def _short(estimate: Estimate) -> str:
    if estimate.value is None:
        return _value(estimate)
    return f"{_value(estimate)} ({_counted(estimate)})"


def _coverage(metrics: Metrics) -> str:
    coverage = metrics.coverage
    needed = coverage.planned_attempts - coverage.skipped
    text = (
        f"{format_number(coverage.fraction)} ({format_number(coverage.scored)} of "
        f"{count(needed, 'attempt')} scored, {count(coverage.planned_tasks, 'task')})"
    )
    if coverage.skipped:
        text += f"; {format_number(coverage.skipped)} more skipped after a success"
    return text + ("; LOW" if is_low(metrics) else "")


def _taken_over(metrics: Metrics) -> str:
    planned = format_number(metrics.coverage.planned_attempts)
    attempts = sum(item.attempts for item in metrics.taken_over)
    runs = ", ".join(item.run_id for item in metrics.taken_over[:5])
    runs += ", …" if len(metrics.taken_over) > 5 else ""
    text = f"{format_number(attempts)} of {planned} attempts from {runs}"
    own = metrics.own_usage
    if own is None:
        return text
    cost = f", cost {format_cost(own.cost_usd, own.cost_partial)}" if own.calls else ""
    return f"{text}; this run's own: {_tokens(own)}{cost}"


def _tokens(usage: Usage) -> str:
    if not usage.calls:
        return "no model calls"
    if usage.input_tokens is None and usage.output_tokens is None:
        return f"unknown in {count(usage.calls, 'call')}"
    known = (
        f"{format_number(usage.input_tokens, 'unknown')} in "
        f"({format_number(usage.cached_input_tokens, 'unknown')} cached), "
        f"{format_number(usage.output_tokens, 'unknown')} out"
    )
    partial = f" (partial: {count(usage.uncounted_calls, 'call')} reported none)"
    return f"{known} in {count(usage.calls, 'call')}" + partial * bool(usage.uncounted_calls)


def _time(metrics: Metrics) -> str:
    times = metrics.times
    wall = (
        (metrics.ended_at - metrics.started_at).total_seconds()
        if metrics.started_at and metrics.ended_at
        else None
    )
    return (
        f"{format_seconds(wall)} from first start to last end; agents worked "
        f"{format_seconds(work_seconds(times))} in all, {format_seconds(times.waiting_seconds)} of "
        "waiting for the model apart"
    )


def work_seconds(times: PhaseTimes) -> float | None:
    """Of the agents without waiting. Calls made side by side may wait longer than the clock."""
    if times.run_seconds is None:
        return None
    return max(0.0, times.run_seconds - times.waiting_seconds)
