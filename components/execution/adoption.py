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
from typing import Any

from agentcompass.components.contracts.attempt import AttemptKey, AttemptRecord, Checkpoint
from agentcompass.components.contracts.run import RunPlan
from agentcompass.components.contracts.task import Sample, Task, Verification
from agentcompass.components.execution.earlier_work import (
    checkpoints_left,
    outdated,
    what_was_tried,
)
from agentcompass.components.execution.images_now import is_another
from agentcompass.components.results.reading import DamagedRecord
from agentcompass.components.results.store import RunStore

log = logging.getLogger(__name__)

WORKERS = 8
"""Threads that wait for the disk."""

_OTHER_IMAGE = "%s runs again: it was made in image %s, and the image's name means another one now"

_OUTDATED = "%s runs again: rescore kept its verdict, which an earlier grader or setting gave"

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
    before: dict[int, AttemptRecord] = field(default_factory=dict)
    """By attempt: what is known of the tries until now, where the attempt goes on from them."""


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
    try:
        document = source.read_run() or {}
    except DamagedRecord:  # told where the source was chosen
        document = {}
    _tell_of_others(samples, source.run_id, document)
    now = _Now(plan, verification, images, outdated(document))

    def one(sample: Sample) -> tuple[str, Adopted]:
        return sample.task.id, _adopt_task(now, sample, source, target)

    with ThreadPoolExecutor(WORKERS) as pool:
        for task_id, adopted in pool.map(one, samples):
            if adopted.records or adopted.checkpoints or adopted.before:
                yield task_id, adopted


def _tell_of_others(samples: Sequence[Sample], run_id: str, document: Mapping[str, Any]) -> None:
    """Tasks that only one of the two runs has: the earlier score speaks of other tasks."""
    before = dict.fromkeys(document.get("tasks", ()))
    now = dict.fromkeys(sample.task.id for sample in samples)
    gone = [task_id for task_id in before if task_id not in now]
    new = [task_id for task_id in now if task_id not in before]
    if gone:
        log.warning(
            "%d tasks of run %s are not in this one, being no longer in the data or not selected: "
            "%s",
            len(gone),
            run_id,
            _first(gone),
        )
    if new and before:
        log.warning("%d tasks were not in run %s: %s", len(new), run_id, _first(new))


def _first(ids: Sequence[str]) -> str:
    more = f" and {len(ids) - SHOWN} more" if len(ids) > SHOWN else ""
    return ", ".join(ids[:SHOWN]) + more


@dataclass(frozen=True)
class _Now:
    """What the new run would do."""

    plan: RunPlan
    verification: Callable[[Task], Verification]
    images: Mapping[str, frozenset[str]]
    outdated: frozenset[tuple[str, int]]
    told: set[str] = field(default_factory=set)

    def stands(self, record: AttemptRecord) -> bool:
        """It is scored, and would be so now."""
        key = record.key
        if record.status != "scored" or key.index > self.plan.request.execution.attempts.k:
            return False
        if (key.task_id, key.index) in self.outdated:
            log.warning(_OUTDATED, key)
            return False
        return not self.has_other_image(key, record.image)

    def has_other_image(self, key: AttemptKey, image: str | None) -> bool:
        """Not the one that the attempt was made in; says so, once."""
        if not is_another(image, self.images.get(key.task_id)):
            return False
        if str(key) not in self.told:
            log.warning(_OTHER_IMAGE, key, image)
            self.told.add(str(key))
        return True


def _adopt_task(now: _Now, sample: Sample, source: RunStore, target: RunStore) -> Adopted:
    k, task_id = now.plan.request.execution.attempts.k, sample.task.id
    told = {record.key.index: record for record in _told(sample, source)}
    records = [record for record in told.values() if now.stands(record)]
    if records and target is not source:
        records = [
            record.model_copy(update={"origin": record.origin or source.run_id})
            for record in records
        ]
        for record in records:
            link_attempt(record.key, source, target)
        target.save_records(sample.task, k, sample.content_hash, records)
    checkpoints, before = {}, {}
    done = {record.key.index for record in records}
    for index in set(range(1, k + 1)) - done:
        left = checkpoints_left(task_id, index, source)
        checkpoint = _checkpoint(now, sample, left)
        if checkpoint is not None:
            link_attempt(checkpoint.key, source, target)
            checkpoints[index] = checkpoint
        tried = what_was_tried(told.get(index), left)
        if tried is not None and (checkpoint is not None or target is source):
            before[index] = tried
    return Adopted(tuple(records), checkpoints, before)


def _told(sample: Sample, source: RunStore) -> tuple[AttemptRecord, ...]:
    """The task's records, if the task is still the same."""
    task_id = sample.task.id
    try:
        detail = source.read_detail(task_id)
    except DamagedRecord as error:
        log.warning("%s runs again: %s", task_id, error)
        return ()
    if detail is None:
        return ()
    if detail.content_hash != sample.content_hash:
        log.warning("%s runs again: the task's content changed since %s", task_id, source.run_id)
        return ()
    return detail.attempts


def _checkpoint(now: _Now, sample: Sample, left: Sequence[Checkpoint]) -> Checkpoint | None:
    if not left or not now.plan.request.runtime.checkpoint_resume:
        return None
    found = left[-1]
    if found.content_hash != sample.content_hash:
        log.warning("%s runs again: the task's content changed since its checkpoint", found.key)
        return None
    if now.has_other_image(found.key, found.image):
        return None
    if now.verification(sample.task) == "reuse":
        log.warning("%s runs again: its grader needs the agent's own sandbox", found.key)
        return None
    return found


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
