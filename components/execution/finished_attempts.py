"""Read a finished run for the analyzers: every attempt, and after it the earlier tries of it.

The one place that knows where a try's records are. A try that does not count leaves a folder, and
perhaps a trajectory and a checkpoint there, but no record of its own: what is known of it is put
together here, without a score and without usage, which is part of the attempt's.
"""

import logging
from collections.abc import Callable, Iterator
from typing import TypeVar

from agentcompass.components.contracts.analysis import FinishedAttempt
from agentcompass.components.contracts.attempt import AttemptKey, AttemptRecord, Detail, Note
from agentcompass.components.contracts.errors import Phase
from agentcompass.components.execution.earlier_work import tries_on_disk
from agentcompass.components.results.reading import DamagedRecord
from agentcompass.components.results.store import RunStore

log = logging.getLogger(__name__)

R = TypeVar("R")


def finished_attempts(store: RunStore, unreadable: list[str]) -> Iterator[FinishedAttempt]:
    """One in memory at a time. Files that cannot be read are left out, and named in `unreadable`;
    a detail that cannot be read raises DamagedRecord."""
    for detail in store.details():
        for record in detail.attempts:
            if record.status == "skipped":
                continue
            trajectory = _read(store.read_trajectory, record.key, unreadable)
            yield FinishedAttempt(detail, record, trajectory)
            del trajectory
            yield from _earlier_tries(store, detail, record, unreadable)


def read_again(
    store: RunStore, task_id: str, index: int, earlier_try: int | None
) -> FinishedAttempt | None:
    """One of them by its names; None if it is gone or cannot be read."""
    unreadable: list[str] = []
    detail = store.read_detail(task_id)
    for record in detail.attempts if detail else ():
        if record.key.index == index and detail is not None:
            key = record.key
            if earlier_try is not None:
                key = key.model_copy(update={"physical": earlier_try})
            trajectory = _read(store.read_trajectory, key, unreadable)
            return FinishedAttempt(detail, record, trajectory, earlier_try)
    return None


def _earlier_tries(
    store: RunStore, detail: Detail, counted: AttemptRecord, unreadable: list[str]
) -> Iterator[FinishedAttempt]:
    failures = _failures_by_try(counted)
    for number in sorted({*tries_on_disk(store, counted.key), *failures} - {counted.key.physical}):
        key = counted.key.model_copy(update={"physical": number})
        trajectory = _read(store.read_trajectory, key, unreadable)
        left = _read(store.read_checkpoint, key, unreadable)
        failure = failures.get(number)
        if trajectory is None and left is None and failure is None:
            continue
        record = AttemptRecord(
            key=key,
            status="unscored",
            failure=failure,
            notes=left.notes if left else (),
            submission=left.submission if left else None,
            timed_out=left is not None and left.timed_out,
            origin=counted.origin,
        )
        alone = detail.model_copy(update={"attempts": (record,)})
        yield FinishedAttempt(alone, record, trajectory, number)


def _failures_by_try(record: AttemptRecord) -> dict[int, Note]:
    """Why each earlier try failed, where the count of failures leaves no doubt which is whose.

    A failure in judging is mended by judging again what the same try left, or, if the grader
    needs the agent's own sandbox, by another try.
    """
    failures, tries = record.earlier_failures, record.key.physical - 1
    for ended in (failures, tuple(note for note in failures if note.phase is not Phase.SCORE)):
        if len(ended) == tries:
            return dict(enumerate(ended, 1))
    return {}


def _read(
    reading: Callable[[AttemptKey], R | None], key: AttemptKey, unreadable: list[str]
) -> R | None:
    try:
        return reading(key)
    except DamagedRecord as error:
        log.warning("left out of the analysis of %s: %s", key, error)
        unreadable.append(str(error))
        return None
