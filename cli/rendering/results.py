"""The one table at the end of a run: the score, how sure it is, what was left out, what it cost."""

from collections.abc import Iterator

from agentcompass.cli.rendering.columns import columns
from agentcompass.components.results.headline import headline_lines
from agentcompass.components.results.metrics_record import Metrics
from agentcompass.components.results.numbers_shown import count, format_number


def result_lines(metrics: Metrics) -> list[str]:
    """Lines of plain text; the first is the headline."""
    return columns([*headline_lines(metrics), *_also(metrics)])


def _also(metrics: Metrics) -> Iterator[tuple[str, str]]:
    """What the summary keeps in sections of its own."""
    for extra in metrics.extra:
        over = f"({count(extra.n_tasks, 'task')}, {count(extra.n_attempts, 'attempt')})"
        yield extra.name, f"{format_number(extra.value, extra.note or 'no score')} {over}"
    for warning in metrics.warnings:
        yield "warning", f"{count(warning.attempts, 'attempt')}: {warning.code} ({warning.meaning})"
