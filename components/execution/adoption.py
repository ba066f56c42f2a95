"""Take over from an earlier run what stands: scored attempts, and checkpoints not yet judged.

The earlier run is only read. Its files are linked into the new run, which is complete in itself;
a record taken over names its origin. All of it is done before the first new attempt, so that a
run that took over always holds at least as much as its source, even if it is killed at once.
"""

import logging
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from agentcompass.components.contracts.attempt import AttemptKey, AttemptRecord, Checkpoint
from agentcompass.components.contracts.run import RunPlan
from agentcompass.components.contracts.task import Sample, Task, Verification
from agentcompass.components.results.reading import DamagedRecord
from agentcompass.components.results.store import RunStore

log = logging.getLogger(__name__)

WORKERS = 8
"""Threads that wait for the disk."""

APPENDED_TO = "log.txt"
"""The only file of an attempt that is ever written to again."""


@dataclass(frozen=True)
class Adopted:
    """What of a task need not be done again."""

    records: tuple[AttemptRecord, ...] = ()
    checkpoints: dict[int, Checkpoint] = field(default_factory=dict)
    """By attempt: the agent is done, the judge is not."""


def adopt(
    plan: RunPlan,
    verification: Callable[[Task], Verification],
    samples: Sequence[Sample],
    source: RunStore,
    target: RunStore,
) -> Iterator[tuple[str, Adopted]]:
    """Link what stands into the new run; for each task with anything, what that is."""

    def one(sample: Sample) -> tuple[str, Adopted]:
        return sample.task.id, _adopt_task(plan, verification, sample, source, target)

    with ThreadPoolExecutor(WORKERS) as pool:
        for task_id, adopted in pool.map(one, samples):
            if adopted.records or adopted.checkpoints:
                yield task_id, adopted


def _adopt_task(
    plan: RunPlan,
    verification: Callable[[Task], Verification],
    sample: Sample,
    source: RunStore,
    target: RunStore,
) -> Adopted:
    k = plan.request.execution.attempts.k
    records = _records(sample, source, k)
    for record in records:
        _link_attempt(record.key, source, target)
    if records:
        target.save_records(sample.task, k, sample.content_hash, records)
    checkpoints = {}
    if plan.request.runtime.checkpoint_resume:
        done = {record.key.index for record in records}
        for index in set(range(1, k + 1)) - done:
            checkpoint = _checkpoint(sample, index, source, verification)
            if checkpoint is not None:
                _link_attempt(checkpoint.key, source, target)
                checkpoints[index] = checkpoint
    return Adopted(tuple(records), checkpoints)


def _records(sample: Sample, source: RunStore, k: int) -> list[AttemptRecord]:
    """The task's scored attempts up to k, if the task is still the same."""
    task_id = sample.task.id
    try:
        detail = source.read_detail(task_id)
    except DamagedRecord as error:
        log.warning("%s runs again: %s", task_id, error)
        return []
    if detail is None:
        return []
    if detail.content_hash != sample.content_hash:
        log.warning("%s runs again: the task's content changed since %s", task_id, source.run_id)
        return []
    return [
        record.model_copy(update={"origin": record.origin or source.run_id})
        for record in detail.attempts
        if record.status == "scored" and record.key.index <= k
    ]


def _checkpoint(
    sample: Sample, index: int, source: RunStore, verification: Callable[[Task], Verification]
) -> Checkpoint | None:
    """What the agent left in its last try that came so far."""
    found = None
    physical = 1
    while True:
        key = AttemptKey(task_id=sample.task.id, index=index, physical=physical)
        if not source.folder.attempt(key).is_dir():
            break
        try:
            found = source.read_checkpoint(key) or found
        except DamagedRecord as error:
            log.warning("%s runs again: %s", key, error)
        physical += 1
    if found is None:
        return None
    if found.content_hash != sample.content_hash:
        log.warning("%s runs again: the task's content changed since its checkpoint", found.key)
        return None
    if verification(sample.task) == "reuse":
        log.warning("%s runs again: its grader needs the agent's own sandbox", found.key)
        return None
    return found


def _link_attempt(key: AttemptKey, source: RunStore, target: RunStore) -> None:
    """The attempt's folder with all its tries, as hard links: a file is replaced, never changed."""
    first = key.model_copy(update={"physical": 1})
    old, new = source.folder.attempt(first), target.folder.attempt(first)
    if not new.exists() and old.is_dir():
        shutil.copytree(old, new, copy_function=link, symlinks=True)


def link(old: str, new: str) -> str:
    """A second name for a file, or a copy where that cannot be. For shutil.copytree too."""
    try:
        if new.endswith(APPENDED_TO):
            raise OSError("a link would change with its copy")
        os.link(old, new)
    except OSError:  # also another file system, or one without links
        shutil.copy2(old, new)
    return new
