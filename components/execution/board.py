"""Where a run stands: counts that every attempt moves, and what follows from them on a look."""

import time
from datetime import UTC, datetime

from agentcompass.components.contracts.attempt import AttemptKey, AttemptRecord
from agentcompass.components.contracts.errors import POLICIES
from agentcompass.components.contracts.progress import Progress
from agentcompass.components.execution.time_left import TimeLeft
from agentcompass.components.results.score_so_far import ScoreSoFar

LOOK_SECONDS = 0.4
"""A look within this time of the last one sees the same."""
SHARE_OF_TIME = 0.02
"""Looks at a large run may take so much of the event loop's time."""


class Board:
    def __init__(self, planned: int, score: ScoreSoFar | None = None) -> None:
        now = datetime.now(UTC)
        self.progress = Progress(planned=planned, started_at=now, updated_at=now)
        """The counts, always true; `look` adds the score and the time left."""
        self._score = score or ScoreSoFar()
        self._time_left = TimeLeft()
        self._to_be_tried_again: dict[tuple[str, int], AttemptRecord] = {}
        self._seen: Progress | None = None
        self._next_look = 0.0
        self._changed = False

    def look(self) -> Progress:
        """With the score so far, its interval and the time left. On the event loop."""
        now, counts = time.monotonic(), self.progress
        if counts.state == "running" and self._seen is not None and now < self._next_look:
            return self._seen
        update: dict[str, object] = {"pausing": 0}
        if counts.state == "running":
            update["pausing"] = min(self._time_left.pausing(now), counts.waiting)
            update["expected_seconds_left"] = self._time_left.seconds(counts.waiting, now)
        if self._changed:
            found = self._score.estimate()
            update |= {"score": found.value, "interval95": found.interval95}
            self._changed = False
        self.progress = self._seen = counts.model_copy(update=update)
        took = time.monotonic() - now
        self._next_look = now + max(LOOK_SECONDS, took / SHARE_OF_TIME)
        return self._seen

    def started(self, key: AttemptKey) -> None:
        self._to_be_tried_again.pop(_place(key), None)
        self._time_left.started(_place(key), time.monotonic())
        self._set(running=self.progress.running + 1)

    def ended(self, key: AttemptKey, record: AttemptRecord | None) -> None:
        """One running attempt less; with its record, or None if it broke off without one."""
        self._time_left.ended(_place(key), time.monotonic())
        self._set(running=self.progress.running - 1)
        if record is not None:
            self._count(record)

    def pauses(self, key: AttemptKey, seconds: float, record: AttemptRecord) -> None:
        """One running attempt less; another try of it comes after a pause. The record counts if
        the run is over before that."""
        now = time.monotonic()
        self._to_be_tried_again[_place(key)] = record
        self._time_left.ended(_place(key), now, for_good=False)
        self._time_left.pauses(now + seconds)
        self._set(running=self.progress.running - 1)

    def adopted(self, record: AttemptRecord) -> None:
        self._set(taken_over=self.progress.taken_over + 1)
        self._count(record)

    def skipped(self, record: AttemptRecord) -> None:
        self._time_left.skipped()
        self._count(record)

    def close(self, state: str) -> None:
        while self._to_be_tried_again:
            record = next(iter(self._to_be_tried_again.values()))
            self._count(record, by_itself=False)
        self._set(state=state, expected_seconds_left=None)

    def _count(self, record: AttemptRecord, *, by_itself: bool = True) -> None:
        """An attempt that did not end by itself says nothing of the score so far."""
        self._to_be_tried_again.pop(_place(record.key), None)
        now, owners = self.progress, dict(self.progress.unscored_by_owner)
        if record.failure is not None:
            owner = POLICIES[record.failure.code].owner
            owners[owner] = owners.get(owner, 0) + 1
        if by_itself:
            self._score.add(record)
            self._changed = True
        self._set(
            scored=now.scored + (record.status == "scored"),
            unscored=now.unscored + (record.status == "unscored"),
            skipped=now.skipped + (record.status == "skipped"),
            value_sum=now.value_sum + (record.value or 0.0),
            unscored_by_owner=owners,
            usage=now.usage + record.usage,
        )

    def _set(self, **changes: object) -> None:
        changes["updated_at"] = datetime.now(UTC)
        self.progress = self.progress.model_copy(update=changes)


def _place(key: AttemptKey) -> tuple[str, int]:
    return key.task_id, key.index
