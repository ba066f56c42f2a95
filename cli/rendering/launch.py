"""The table at the end of a launch: one row a request."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from agentcompass.cli.rendering.columns import columns, width
from agentcompass.components.contracts.run import RunRequest
from agentcompass.components.results.metrics_record import Metrics
from agentcompass.components.results.numbers_shown import format_cost, format_number
from agentcompass.components.results.reading import read_record

if TYPE_CHECKING:
    from agentcompass.flows.together import Member

HEADER = ("request", "environment", "metric", "value", "scored", "cost", "ended", "folder")


LESS_IMPORTANT = ("environment", "metric", "cost")
"""Left out in this order where a terminal is too narrow."""
SHORTEST_LABEL = 18
"""Cells; with `value`, `scored` and `ended` beside it a row has place in 50."""


def label(request: RunRequest) -> str:
    return f"{request.benchmark.id} · {request.harness.id} · {request.model.id}"


def table_lines(members: "list[Member]", room: int | None) -> list[str]:
    """`room`: cells of a line; None: as many as it takes.

    Where the table is too wide, the folders stand below it: a path that is cut helps nobody.
    """
    rows = [_row(member) for member in members]
    lines = columns([HEADER, *rows])
    if room is None or _widest(lines) <= room:
        return lines
    kept = [n for n, name in enumerate(HEADER) if name != "folder"]
    for name in (*LESS_IMPORTANT, None):
        lines = columns([[row[n] for n in kept] for row in (HEADER, *rows)])
        if _widest(lines) <= room or name is None:
            break
        kept.remove(HEADER.index(name))
    labels = max(width(row[0]) for row in rows)
    cells = max(SHORTEST_LABEL, labels - max(0, _widest(lines) - room))
    short = [[cut_label(row[0], cells), *(row[n] for n in kept[1:])] for row in rows]
    folders = [f"  {_from_here(row[-1])}" for row in rows if row[-1] != "–"]
    return columns([[HEADER[n] for n in kept], *short]) + ["folders:"] * bool(folders) + folders


def room_for_table() -> int | None:
    """The width of the terminal behind stdout; None: there is none."""
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns or None
    except (OSError, ValueError):
        return None


def cut_label(text: str, cells: int) -> str:
    """Its longest part is cut until all have place: in the middle, for names differ at an end."""
    parts = text.split(" · ")
    lengths = [len(part) for part in parts]

    def joined() -> str:
        return " · ".join(map(_cut, parts, lengths))

    while width(joined()) > cells and max(lengths) > 1:
        lengths[lengths.index(max(lengths))] -= 1
    return joined()


def _cut(part: str, length: int) -> str:
    if length >= len(part):
        return part
    head = length // 2
    return part[:head] + "…" + part[len(part) - (length - 1 - head) :]


def _widest(lines: list[str]) -> int:
    return max(width(line) for line in lines)


def _from_here(folder: str) -> str:
    path, here = Path(folder), Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else folder


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
