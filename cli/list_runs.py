"""`agentcompass list runs`: those below a results folder, and those that a Prefect API knows."""

import json
import textwrap
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from agentcompass.cli.rendering.columns import columns
from agentcompass.cli.streams import put

if TYPE_CHECKING:
    from agentcompass.components.results.found_runs import FoundRun

HEADER = ("id", "run", "state", "score", "started", "where", "note")
LONGEST_PROBLEM = 80
"""Characters of a line; --json has it whole."""
KNOWN_TO_API = 200
"""So many of the newest are asked for."""


def list_runs(results_dir: str | None, *, as_json: bool) -> int:
    """Newest first. A run that both know stands there once, as its own files tell.

    Its flow run is known by its id; the one of a retry or of a rescore in place by the folder.
    """
    from agentcompass.components.contracts.user_path import user_path
    from agentcompass.components.execution.configured import configured
    from agentcompass.components.results.found_runs import found_runs
    from agentcompass.flows.handing_over import recorded_runs

    root = results_dir or configured().section("runtime").get("results_dir", "results")
    found = list(found_runs(user_path(root, "results-dir").absolute()))
    known = {name for run in found for name in (run.flow_run_id, run.run_dir)} - {""}
    rows = [_row(run) for run in found]
    for run in recorded_runs(KNOWN_TO_API):  # newest first: the latest in a folder tells of it
        if not known & {run.flow_run_id, run.run_dir}:
            rows.append(_row(run))
            known |= {run.run_dir} - {""}
    rows.sort(key=lambda row: row["started"] or "", reverse=True)
    if as_json:
        put(json.dumps(rows, ensure_ascii=False, indent=2))
        return 0
    for line in columns([HEADER, *(_line(row) for row in rows)]):
        put(line)
    return 0


def _row(run: "FoundRun") -> dict[str, Any]:
    return {
        "id": run.id,
        "run": run.name,
        "state": run.state,
        "score": run.score,
        "started": _iso(run.started),
        "problem": run.problem,
        "rescored_from": run.rescored_from or None,
        "continued": run.continued,
        "where": run.run_dir or run.url,
        "flow_run_id": run.flow_run_id or None,
    }


def _iso(when: datetime | None) -> str | None:
    return when.astimezone(UTC).isoformat(timespec="seconds") if when else None


def _line(row: dict[str, Any]) -> tuple[str, ...]:
    from agentcompass.components.results.numbers_shown import format_number

    score = "–" if row["score"] is None else format_number(row["score"], "–")
    started = (row["started"] or "–").replace("T", " ").removesuffix("+00:00")
    state = row["state"].replace("_", " ")
    return row["id"], row["run"], state, score, started, row["where"], _note(row)


def _note(row: dict[str, Any]) -> str:
    """What tells it apart from another run of its name, and why it failed."""
    times = row["continued"]
    source = row["rescored_from"]
    rescored = "rescored in place" if source == row["id"] else f"rescored from {source}"
    facts = [
        rescored if source else "",
        f"continued {times} time{'s' * (times != 1)}" if times else "",
        textwrap.shorten(row["problem"], LONGEST_PROBLEM, placeholder=" …"),
    ]
    return "; ".join(filter(None, facts))
