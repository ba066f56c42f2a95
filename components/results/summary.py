"""summary.md: what a person reads after a run. Made of metrics alone; shuffling changes no byte."""

import re
from collections.abc import Iterable, Mapping, Sequence

from agentcompass.components.results.headline import (
    LOW_COVERAGE,
    NO_SCORE,
    Line,
    headline_lines,
    is_low,
    without_score,
    work_seconds,
)
from agentcompass.components.results.metrics_record import (
    CategoryMetrics,
    CodeCount,
    Estimate,
    Metrics,
)
from agentcompass.components.results.numbers_shown import (
    fence,
    format_cost,
    format_interval,
    format_number,
    format_seconds,
)

__all__ = ["Line", "format_number", "headline_lines", "summary_markdown"]

_MARKUP = re.compile(r"[\\|<`\[*~]|&(?=#?\w+;)|(?<![^\W_])_|_(?![^\W_])")
"""Underscores within a word are none."""
_REPEAT, _WAY_ON = "command", "way on"


def summary_markdown(metrics: Metrics, plan_facts: Mapping[str, object]) -> str:
    """The summary. `plan_facts` are shown as they come, label → value; `benchmark`, `harness` and
    `model` make the title, `command` says how to repeat the run, `way on` how to make up for
    what it lacks."""
    sections = [
        _title(plan_facts),
        _score(metrics),
        _without_score(metrics, plan_facts),
        _metrics(metrics),
        _categories(metrics.categories),
        _codes("Failures", "Attempts without a score, by cause.", metrics.failures),
        _codes("Warnings", "Noted on attempts; their scores count.", metrics.warnings),
        _cost(metrics),
        _facts(plan_facts),
    ]
    return "\n\n".join(section for section in sections if section) + "\n"


def _title(facts: Mapping[str, object]) -> str:
    names = [str(facts[name]) for name in ("benchmark", "harness", "model") if facts.get(name)]
    return "# " + (_escaped(" · ".join(names)) or "Summary")


def _score(metrics: Metrics) -> str:
    headline = metrics.headline
    value = format_number(headline.value, headline.note or "no score")
    lines = [f"**{headline.name} = {value}**: {headline.definition}."]
    if is_low(metrics):
        lines.append(
            f"**Low coverage**: less than {format_number(LOW_COVERAGE)} of the attempts have a "
            "score; read the number with what has none."
        )
    rows = [line for line in headline_lines(metrics) if line.label != NO_SCORE]
    return "\n\n".join([*lines, _table(("", ""), rows)])


def _without_score(metrics: Metrics, facts: Mapping[str, object]) -> str:
    reasons = without_score(metrics)
    outcomes = metrics.outcomes
    classes = {
        "correct": outcomes.correct,
        "incorrect": outcomes.incorrect,
        "scored": outcomes.scored,
        "unscored": sum(outcomes.unscored.values()),
        "skipped": outcomes.skipped,
        "missing": outcomes.missing,
    }
    parts = [f"{format_number(n)} {name}" for name, n in classes.items() if n is not None]
    planned = format_number(metrics.coverage.planned_attempts)
    text = f"## Without a score\n\n{planned} planned attempts = " + " + ".join(parts) + "."
    listed = [f"- {_escaped(reason)}" for reason in reasons] or ["Nothing: every attempt counts."]
    parts_below = [text, "\n".join(listed)]
    if facts.get(_WAY_ON):
        parts_below += [
            "What to do: see `analysis/analysis.md`. To go on, once the cause is gone (scored "
            "attempts are kept):",
            _fenced(facts[_WAY_ON]),
        ]
    return "\n\n".join(parts_below)


def _metrics(metrics: Metrics) -> str:
    header = ("metric", "over", "value", "s.e.", "95 % interval", "method", "tasks", "attempts")
    rows = [
        (metric.name, over, *_estimate(estimate))
        for metric in metrics.metrics
        for over, estimate in (("planned", metric.planned), ("scored", metric.scored))
    ]
    rows += [(extra.name, "scored", *_estimate(extra)) for extra in metrics.extra]
    definitions = [f"- `{m.name}`: {m.definition}" for m in metrics.metrics]
    return "\n\n".join(
        [
            "## Metrics",
            _table(header, rows),
            "`planned`: an attempt without a score counts as 0; `scored`: it is left out, and a "
            "task counts where its scores decide the metric.",
            "\n".join(definitions),
        ]
    )


def _estimate(estimate: Estimate) -> tuple[str, ...]:
    return (
        format_number(estimate.value, estimate.note or "no score"),
        format_number(estimate.standard_error),
        format_interval(estimate.interval95),
        estimate.interval_method or "-",
        format_number(estimate.n_tasks),
        format_number(estimate.n_attempts),
    )


def _categories(categories: Sequence[CategoryMetrics]) -> str:
    if not categories:
        return ""
    header = ("category", categories[0].headline.name, "95 % interval", "tasks", "scored attempts")
    rows = [
        (
            item.category if item.category is not None else "(none)",
            format_number(item.headline.value, item.headline.note or "no score"),
            format_interval(item.headline.interval95),
            format_number(item.coverage.planned_tasks),
            f"{format_number(item.coverage.scored)} of "
            + format_number(item.coverage.planned_attempts - item.coverage.skipped),
        )
        for item in categories
    ]
    return "## By category\n\n" + _table(header, rows)


def _codes(title: str, meaning: str, counts: Sequence[CodeCount]) -> str:
    if not counts:
        return ""
    rows = [
        (
            item.code.value,
            item.owner.value,
            format_number(item.attempts),
            format_number(item.tasks),
            "; ".join(f"{e.task_id} #{e.index}: {e.message}" for e in item.examples[:2]),
        )
        for item in counts
    ]
    header = ("code", "owner", "attempts", "tasks", "examples")
    return f"## {title}\n\n{meaning}\n\n" + _table(header, rows)


def _cost(metrics: Metrics) -> str:
    usage, times = metrics.usage, metrics.times
    calls = [
        ("input tokens", format_number(usage.input_tokens, "unknown")),
        ("of them cached", format_number(usage.cached_input_tokens, "unknown")),
        ("output tokens", format_number(usage.output_tokens, "unknown")),
        ("of them reasoning", format_number(usage.reasoning_tokens, "unknown")),
        ("calls without token counts", format_number(usage.uncounted_calls)),
        ("cost", format_cost(usage.cost_usd, metrics.cost_partial)),
    ]
    rows = [
        ("model calls", format_number(usage.calls)),
        *(calls if usage.calls else ()),  # without one there is nothing that could be unknown
        ("set-up", format_seconds(times.setup_seconds)),
        ("agent", format_seconds(work_seconds(times))),
        ("of it in model calls", format_seconds(times.model_seconds)),
        (
            "waiting for the model (rate limits, failing endpoint)",
            format_seconds(times.waiting_seconds),
        ),
        ("collecting", format_seconds(times.collect_seconds)),
        ("scoring", format_seconds(times.score_seconds)),
    ]
    return "## Cost and time\n\nSums over attempts.\n\n" + _table(("", "total"), rows)


def _facts(facts: Mapping[str, object]) -> str:
    rows = [(name, str(value)) for name, value in facts.items() if name not in (_REPEAT, _WAY_ON)]
    parts = ["## The run", _table(("", ""), rows)] if rows else []
    if facts.get(_REPEAT):
        parts += ["## How to repeat", _fenced(facts[_REPEAT])]
    return "\n\n".join(parts)


def _fenced(command: object) -> str:
    ticks = fence(str(command))
    return f"{ticks}bash\n{command}\n{ticks}"


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header)]
    lines += [[_escaped(cell) for cell in row] for row in rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _escaped(text: str) -> str:
    """Foreign text as one line that Markdown shows as it is."""
    return _MARKUP.sub(r"\\\g<0>", " ".join(text.split()))
