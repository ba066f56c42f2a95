"""Which earlier run a new one takes results over from."""

import json
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agentcompass.components.configuration.spelling import nearest
from agentcompass.components.contracts.errors import RequestError
from agentcompass.components.execution.fingerprint import differences
from agentcompass.components.results.lease import holder
from agentcompass.components.results.paths import RunFolder
from agentcompass.components.results.reading import DamagedRecord
from agentcompass.components.results.store import RunStore

log = logging.getLogger(__name__)

LATEST = "latest"


def find_source(namespace: Path, wanted: str, current: Mapping[str, Any]) -> RunStore | None:
    """The run named, or the one with most finished work; None if none fits, with the reason told.

    `current` is the new run's fingerprint. A run whose own differs is never taken from: its
    differing fields are told. RequestError for a run that does not exist or is being worked on.
    """
    runs = {
        path.parent.name: RunStore(RunFolder(path.parent)) for path in namespace.glob("*/run.json")
    }
    if wanted != LATEST:
        if wanted not in runs:
            raise RequestError("reuse", f"no run {wanted!r} in {namespace}", nearest(wanted, runs))
        if who := holder(runs[wanted].folder.lease):
            raise RequestError("reuse", f"run {wanted} is being worked on by {who}", "wait for it")
        return runs[wanted] if _fits(runs[wanted], current, logging.WARNING) else None
    newest_first = sorted(runs.values(), key=lambda run: run.run_id, reverse=True)
    candidates: list[RunStore] = []
    for run in newest_first:
        if who := holder(run.folder.lease):
            log.warning("run %s is not reused: it is being worked on by %s", run.run_id, who)
        elif _fits(run, current, logging.INFO if candidates else logging.WARNING):
            candidates.append(run)
    if not candidates:
        log.warning("no earlier run in %s can be reused; everything runs", namespace)
        return None
    return max(candidates, key=finished)  # of equals the first, which is the newest


def finished(run: RunStore) -> int:
    """How many attempts of a run are scored or have a checkpoint. Damaged files count nothing."""
    count = 0
    for path in run.folder.tasks.glob("*/detail.json"):
        try:
            attempts = json.loads(path.read_bytes())["attempts"]
            count += sum(attempt["status"] == "scored" for attempt in attempts)
        except (OSError, ValueError, KeyError, TypeError):
            continue
    return count


def _fits(run: RunStore, current: Mapping[str, Any], level: int) -> bool:
    try:
        document = run.read_run() or {}
    except DamagedRecord as error:
        log.log(level, "run %s is not reused: %s", run.run_id, error)
        return False
    changed = differences(document.get("fingerprint", {}), current)
    if changed:
        log.log(level, "run %s is not reused; it differs in %s", run.run_id, "; ".join(changed))
    return not changed
