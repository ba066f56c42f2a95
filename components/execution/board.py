"""Where a run stands: counts that every finished attempt moves."""

from datetime import UTC, datetime

from agentcompass.components.contracts.attempt import AttemptRecord
from agentcompass.components.contracts.errors import POLICIES
from agentcompass.components.contracts.progress import Progress


class Board:
    def __init__(self, planned: int) -> None:
        now = datetime.now(UTC)
        self.progress = Progress(planned=planned, started_at=now, updated_at=now)

    def started(self) -> None:
        self._set(running=self.progress.running + 1)

    def ended(self, record: AttemptRecord | None) -> None:
        """One running attempt less; with its record, or None if it was cut off."""
        now = self.progress
        self._set(running=now.running - 1)
        if record is not None:
            self._count(record)

    def adopted(self, record: AttemptRecord) -> None:
        self._count(record)

    def skipped(self, record: AttemptRecord) -> None:
        self._count(record)

    def close(self, state: str) -> None:
        self._set(state=state)

    def _count(self, record: AttemptRecord) -> None:
        now, owners = self.progress, dict(self.progress.unscored_by_owner)
        if record.failure is not None:
            owner = POLICIES[record.failure.code].owner
            owners[owner] = owners.get(owner, 0) + 1
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
