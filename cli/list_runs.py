"""`agentcompass list runs`: those below a results folder, and those that a Prefect API knows."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentcompass.cli.rendering.columns import columns
from agentcompass.cli.streams import put

if TYPE_CHECKING:
    from agentcompass.components.results.found_runs import FoundRun
    from agentcompass.flows.recorded import RecordedRun

HEADER = ("id", "run", "state", "score", "started", "where")
KNOWN_TO_API = 200
"""So many of the newest are asked for."""


def list_runs(results_dir: str | None, *, as_json: bool) -> int:
    """Newest first. A run that both know stands there once, as its own files tell."""
    from agentcompass.components.execution.configured import configured
    from agentcompass.components.results.found_runs import found_runs
    from agentcompass.flows.handing_over import recorded_runs

    root = results_dir or configured().section("runtime").get("results_dir", "results")
    found = list(found_runs(Path(root).expanduser().absolute()))
    known = {run.flow_run_id for run in found}
    rows = [_found(run) for run in found]
    rows += [_recorded(run) for run in recorded_runs(KNOWN_TO_API) if run.id not in known]
    rows.sort(key=lambda row: row["started"] or "", reverse=True)
    if as_json:
        put(json.dumps(rows, ensure_ascii=False, indent=2))
        return 0
    for line in columns([HEADER, *(_line(row) for row in rows)]):
        put(line)
    return 0


def _found(run: "FoundRun") -> dict[str, Any]:
    return {
        "id": run.id,
        "run": run.name,
        "state": run.state,
        "score": run.score,
        "started": _iso(run.started),
        "where": run.run_dir,
        "flow_run_id": run.flow_run_id or None,
    }


def _recorded(run: "RecordedRun") -> dict[str, Any]:
    return {
        "id": run.id,
        "run": run.name,
        "state": run.state,
        "score": run.score,
        "started": _iso(run.started),
        "where": run.run_dir or run.url,
        "flow_run_id": run.id,
    }


def _iso(when: datetime | None) -> str | None:
    return when.astimezone(UTC).isoformat(timespec="seconds") if when else None


def _line(row: dict[str, Any]) -> tuple[str, ...]:
    from agentcompass.components.results.numbers_shown import format_number

    score = "–" if row["score"] is None else format_number(row["score"], "–")
    started = (row["started"] or "–").replace("T", " ").removesuffix("+00:00")
    return row["id"], row["run"], row["state"], score, started, row["where"]
