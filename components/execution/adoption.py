"""Take over what stands: scored attempts, and checkpoints not yet judged.

From an earlier run, which is only read: its files are linked into the new run, which is complete
in itself; a record taken over names its origin. All of it is done before the first new attempt, so
that a run that took over always holds at least as much as its source, even if it is killed at once.
Or from the run's own folder, when a run is gone on with: then nothing is written.
"""

import logging
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
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

_OTHER_IMAGE = "%s runs again: it was made in image %s, and the image's name means another one now"

SHOWN = 5
"""Ids in a line of the log."""

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
    images: Mapping[str, frozenset[str]],
    samples: Sequence[Sample],
    source: RunStore,
    target: RunStore,
) -> Iterator[tuple[str, Adopted]]:
    """Link what stands into the new run; for each task with anything, what that is.

    `images`: task id → all names of what its sandbox would be made from now, where known.
    """
    _tell_of_others(samples, source)
    now = _Now(plan, verification, images)

    def one(sample: Sample) -> tuple[str, Adopted]:
        return sample.task.id, _adopt_task(now, sample, source, target)

    with ThreadPoolExecutor(WORKERS) as pool:
        for task_id, adopted in pool.map(one, samples):
            if adopted.records or adopted.checkpoints:
                yield task_id, adopted


def _tell_of_others(samples: Sequence[Sample], source: RunStore) -> None:
    """Tasks that only one of the two runs has: the earlier score speaks of other tasks."""
    try:
        before = dict.fromkeys((source.read_run() or {}).get("tasks", ()))
    except DamagedRecord:  # told where the source was chosen
        return
    now = dict.fromkeys(sample.task.id for sample in samples)
    gone = [task_id for task_id in before if task_id not in now]
    new = [task_id for task_id in now if task_id not in before]
    if gone:
        log.warning(
            "%d tasks of run %s are not in this one, being no longer in the data or not selected: "
            "%s",
            len(gone),
            source.run_id,
            _first(gone),
        )
    if new and before:
        log.warning("%d tasks were not in run %s: %s", len(new), source.run_id, _first(new))


def _first(ids: Sequence[str]) -> str:
    more = f" and {len(ids) - SHOWN} more" if len(ids) > SHOWN else ""
    return ", ".join(ids[:SHOWN]) + more


@dataclass(frozen=True)
class _Now:
    """What the new run would do."""

    plan: RunPlan
    verification: Callable[[Task], Verification]
    images: Mapping[str, frozenset[str]]
    told: set[str] = field(default_factory=set)

    def has_other_image(self, key: AttemptKey, image: str | None) -> bool:
        """Not the one that the attempt was made in; says so, once."""
        names = self.images.get(key.task_id)
        if not names or image is None or image in names:
            return False
        if str(key) not in self.told:
            log.warning(_OTHER_IMAGE, key, image)
            self.told.add(str(key))
        return True


def _adopt_task(now: _Now, sample: Sample, source: RunStore, target: RunStore) -> Adopted:
    k = now.plan.request.execution.attempts.k
    records = _records(now, sample, source, k)
    if records and target is not source:
        records = [
            record.model_copy(update={"origin": record.origin or source.run_id})
            for record in records
        ]
        for record in records:
            link_attempt(record.key, source, target)
        target.save_records(sample.task, k, sample.content_hash, records)
    checkpoints = {}
    if now.plan.request.runtime.checkpoint_resume:
        done = {record.key.index for record in records}
        for index in set(range(1, k + 1)) - done:
            checkpoint = _checkpoint(now, sample, index, source)
            if checkpoint is not None:
                link_attempt(checkpoint.key, source, target)
                checkpoints[index] = checkpoint
    return Adopted(tuple(records), checkpoints)


def _records(now: _Now, sample: Sample, source: RunStore, k: int) -> list[AttemptRecord]:
    """The task's scored attempts up to k, if the task and its image are still the same."""
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
    kept = []
    for record in detail.attempts:
        if record.status != "scored" or record.key.index > k:
            continue
        if not now.has_other_image(record.key, record.image):
            kept.append(record)
    return kept


def _checkpoint(now: _Now, sample: Sample, index: int, source: RunStore) -> Checkpoint | None:
    found = kept_checkpoint(sample.task.id, index, source)
    if found is None:
        return None
    if found.content_hash != sample.content_hash:
        log.warning("%s runs again: the task's content changed since its checkpoint", found.key)
        return None
    if now.has_other_image(found.key, found.image):
        return None
    if now.verification(sample.task) == "reuse":
        log.warning("%s runs again: its grader needs the agent's own sandbox", found.key)
        return None
    return found


def kept_checkpoint(task_id: str, index: int, source: RunStore) -> Checkpoint | None:
    """What the agent left in its last try that came so far."""
    found = None
    physical = 1
    while True:
        key = AttemptKey(task_id=task_id, index=index, physical=physical)
        if not source.folder.attempt(key).is_dir():
            return found
        try:
            found = source.read_checkpoint(key) or found
        except DamagedRecord as error:
            log.warning("what %s left is not used: %s", key, error)
        physical += 1


def link_attempt(key: AttemptKey, source: RunStore, target: RunStore) -> None:
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
