"""The table at the end of a launch: one row a request."""

from pathlib import Path
from typing import TYPE_CHECKING

from agentcompass.components.contracts.run import RunRequest
from agentcompass.components.results.metrics_record import Metrics
from agentcompass.components.results.numbers_shown import format_cost, format_number
from agentcompass.components.results.reading import read_record

if TYPE_CHECKING:
    from agentcompass.flows.together import Member

HEADER = ("request", "environment", "metric", "value", "scored", "cost", "ended", "folder")


def label(request: RunRequest) -> str:
    return f"{request.benchmark.id} · {request.harness.id} · {request.model.id}"


def table_lines(members: "list[Member]") -> list[tuple[str, ...]]:
    return [HEADER, *(_row(member) for member in members)]


def metrics_of(member: "Member") -> Metrics | None:
    if member.outcome is None:
        return None
    return read_record(Path(member.outcome.run_dir) / "metrics.json", "metrics", Metrics)


def _row(member: "Member") -> tuple[str, ...]:
    metrics, outcome = metrics_of(member), member.outcome
    headline = metrics.headline if metrics else None
    cost = format_cost(metrics.usage.cost_usd, metrics.cost_partial) if metrics else "–"
    return (
        label(member.request),
        member.request.environment.id,
        headline.name if headline else "–",
        format_number(headline.value, "no score") if headline else "–",
        f"{outcome.scored}/{outcome.planned}" if outcome else "–",
        cost if metrics and metrics.usage.calls else "–",
        outcome.state if outcome else "not begun" if member.exit_code is None else "refused",
        outcome.run_dir if outcome else "–",
    )
