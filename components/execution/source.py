"""Which earlier run a new one takes results over from."""

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from agentcompass.components.configuration.spelling import nearest
from agentcompass.components.contracts.attempt import AttemptKey
from agentcompass.components.contracts.errors import RequestError
from agentcompass.components.contracts.run import RunPlan
from agentcompass.components.contracts.task import Sample, Task, Verification
from agentcompass.components.execution.earlier_work import outdated, tries_on_disk
from agentcompass.components.execution.fingerprint import differences
from agentcompass.components.results.lease import holder
from agentcompass.components.results.paths import RunFolder
from agentcompass.components.results.reading import DamagedRecord
from agentcompass.components.results.store import RunStore

log = logging.getLogger(__name__)

LATEST = "latest"


def find_source(
    namespace: Path,
    wanted: str,
    current: Mapping[str, Any],
    finished: Callable[[RunStore], int],
) -> RunStore | None:
    """The run named, or the one with most finished work; None if none fits, with the reason told.

    `current` is the new run's fingerprint, `finished` says how much of the new run is done in one.
    A run whose fingerprint differs is never taken from: its differing fields are told.
    RequestError for a run that does not exist or is being worked on.
    """
    check_source(namespace, wanted)
    runs = _runs(namespace)
    if wanted != LATEST:
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


def check_source(namespace: Path, wanted: str) -> None:
    """RequestError for a named run that does not exist."""
    runs = _runs(namespace)
    if wanted != LATEST and wanted not in runs:
        raise RequestError("reuse", f"no run {wanted!r} in {namespace}", nearest(wanted, runs))


def _runs(namespace: Path) -> dict[str, RunStore]:
    return {
        path.parent.name: RunStore(RunFolder(path.parent)) for path in namespace.glob("*/run.json")
    }


def finished(
    run: RunStore,
    plan: RunPlan,
    verification: Callable[[Task], Verification],
    samples: Sequence[Sample],
) -> int:
    """How many of the new run's attempts are done there: scored, or with a checkpoint that can be
    judged. Damaged files count nothing. Images are not compared."""
    not_its_own = outdated(run.read_run() or {})
    settings, resume = plan.request.execution, plan.request.runtime.checkpoint_resume
    count = 0
    for sample in samples:
        scored = _scored(run, sample)
        judged = resume and verification(sample.task) != "reuse"
        for index in range(1, settings.attempts.k + 1):
            done = index in scored and (sample.task.id, index) not in not_its_own
            count += done or (judged and _has_checkpoint(run, sample, index))
    return count


def _scored(run: RunStore, sample: Sample) -> set[int]:
    detail = _read(run.folder.detail(sample.task.id))
    try:
        if detail["content_hash"] != sample.content_hash:
            return set()
        attempts = detail["attempts"]
        return {one["key"]["index"] for one in attempts if one["status"] == "scored"}
    except (KeyError, TypeError):
        return set()


def _has_checkpoint(run: RunStore, sample: Sample, index: int) -> bool:
    key = AttemptKey(task_id=sample.task.id, index=index)
    for number in reversed(tries_on_disk(run, key)):
        path = run.folder.checkpoint(key.model_copy(update={"physical": number}))
        if path.is_file():
            found = _read(path)
            return isinstance(found, dict) and found.get("content_hash") == sample.content_hash
    return False


def _read(path: Path) -> Any:
    """Not validated, which would take long for a choice among many runs; None: not readable."""
    try:
        return json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None


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
