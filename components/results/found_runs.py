"""A run as it is listed, and the runs below a results folder from their own files."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from agentcompass.components.results.lease import holder
from agentcompass.components.results.paths import RunFolder


@dataclass(frozen=True)
class FoundRun:
    id: str
    name: str
    """`benchmark · harness · model`."""
    state: str
    """As in run.json; `crashed` where it says `running` and nobody holds the folder. Of one that
    only a Prefect API knows and that has not begun, what it waits for: `scheduled`, …"""
    problem: str
    """Why it failed; "" where nothing did."""
    rescored_from: str
    """The id of the run whose kept work was judged again; "" of a run of its own."""
    continued: int
    """How often it was taken up again in its folder."""
    started: datetime | None
    """Or when it is expected to."""
    run_dir: str
    score: float | None
    """The headline; None: not made, or no score."""
    flow_run_id: str
    """At the Prefect API it ran against."""
    url: str = ""
    """Of its page, where the API told of it."""


def found_runs(results_dir: Path) -> Iterator[FoundRun]:
    """Every run whose run.json can be read, in no order. Damaged ones are left out."""
    for pattern in ("*/*/run.json", "*/*/*/run.json"):
        for path in results_dir.glob(pattern):
            document = _read(path)
            try:
                yield _run(RunFolder(path.parent), document)
            except (AttributeError, KeyError, TypeError, ValueError):
                continue


def _run(folder: RunFolder, document: dict[str, Any]) -> FoundRun:
    request = document["plan"]["request"]
    state, problem = str(document.get("state", "unknown")), str(document.get("problem") or "")
    if state == "running" and holder(folder.lease) is None:
        state, problem = "crashed", problem or "its process is gone"
    value = (_read(folder.metrics_json).get("headline") or {}).get("value")
    started = document.get("started_at")
    return FoundRun(
        id=folder.run_id,
        name=" · ".join(str(request[part]["id"]) for part in ("benchmark", "harness", "model")),
        state=state,
        problem=problem,
        rescored_from=str((document.get("rescored") or {}).get("run_id", "")),
        continued=len(document.get("continued_at") or ()),
        started=datetime.fromisoformat(started) if started else None,
        run_dir=str(folder.root),
        score=float(value) if isinstance(value, int | float) else None,
        flow_run_id=str(document.get("prefect_flow_run_id", "")),
    )


def _read(path: Path) -> dict[str, Any]:
    try:
        document = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return document if isinstance(document, dict) else {}
