"""What a run's folder holds of earlier work on an attempt: its tries, what they left and cost."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from agentcompass.components.contracts.attempt import AttemptKey, AttemptRecord, Checkpoint
from agentcompass.components.results.reading import DamagedRecord
from agentcompass.components.results.store import RunStore

log = logging.getLogger(__name__)


def tries_on_disk(store: RunStore, key: AttemptKey) -> list[int]:
    """Their numbers, in order. Some may be missing: a try that ended early left no folder."""
    first = store.folder.attempt(key.model_copy(update={"physical": 1}))
    return [1, *sorted(_retries(first / "retries"))] if first.is_dir() else []


def _retries(folder: Path) -> Iterator[int]:
    for path in folder.iterdir() if folder.is_dir() else ():
        name = path.name
        if name.isascii() and name.isdigit() and not name.startswith("0") and path.is_dir():
            yield int(name)


def checkpoints_left(task_id: str, index: int, source: RunStore) -> tuple[Checkpoint, ...]:
    """Of the tries that came so far, in order; the last is what there is to judge."""
    found = []
    key = AttemptKey(task_id=task_id, index=index)
    for number in tries_on_disk(source, key):
        one = key.model_copy(update={"physical": number})
        try:
            checkpoint = source.read_checkpoint(one)
        except DamagedRecord as error:
            log.warning("what %s left is not used: %s", one, error)
            continue
        if checkpoint is not None:
            found.append(checkpoint)
    return tuple(found)


def what_was_tried(
    record: AttemptRecord | None, checkpoints: Sequence[Checkpoint]
) -> AttemptRecord | None:
    """The attempt's record, without its verdict and light, with the cost of tries since then.

    Those were killed between their checkpoint and their record. None: nothing is known.
    """
    told = 0 if record is None else record.key.physical
    since = [one for one in checkpoints if one.key.physical > told]
    if record is not None and record.status == "skipped":
        since = []  # its usage is that of all tries, whatever the number it bears
    if record is None:
        if not since:
            return None
        record = AttemptRecord(key=since[0].key, status="unscored", started_at=since[0].started_at)
    update: dict[str, object] = {"submission": None, "verdict": None}
    if since:
        update["usage"] = sum((one.usage for one in since), record.usage)
        update |= {"key": since[-1].key, "ended_at": since[-1].ended_at}
    return record.model_copy(update=update)


def outdated(document: Mapping[str, Any]) -> frozenset[tuple[str, int]]:
    """Task and attempt of the verdicts that a rescored run (its run.json) only keeps, and that
    were given under other conditions than the run names as its own."""
    kept = (document.get("rescored") or {}).get("kept", ())
    return frozenset((one["task_id"], one["attempt"]) for one in kept if one.get("outdated", True))
