"""One concurrency limit at the Prefect API, asked over a client that stays open.

Prefect counts the taken slots of a limit in one row. Slots taken under a lease come back by
themselves when the lease is not renewed (the server looks every 15 s). A request costs a few
milliseconds; Prefect's own `concurrency()` opens clients and a thread for each acquisition.
"""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import httpx
from prefect.client.orchestration import PrefectClient, get_client
from prefect.client.schemas.actions import (
    GlobalConcurrencyLimitCreate,
    GlobalConcurrencyLimitUpdate,
)
from prefect.client.schemas.objects import ConcurrencyLeaseHolder
from prefect.exceptions import ObjectAlreadyExists, ObjectNotFound

LEASE_SECONDS = 60
"""The shortest that Prefect grants."""

REQUEST_SECONDS = 10


class NoAnswer(Exception):
    """The API cannot be reached, is too slow or fails; one line. Asking again later may help."""


class LimitMissing(NoAnswer):
    """Nobody created the limit, or somebody deleted it."""


@dataclass(frozen=True)
class Reading:
    """The limit as it stands at the API."""

    slots: int | None
    """None: an operator has switched the limit off."""
    taken: int
    """After decay, where the limit has one."""
    decay_per_second: float

    @property
    def free(self) -> int | None:
        return None if self.slots is None else max(0, self.slots - self.taken)


@dataclass(eq=False)
class Lease:
    id: UUID
    slots: int
    _renewed: tuple[float, float] = field(default_factory=lambda: _clocks())

    @property
    def age_seconds(self) -> float:
        """Since it was granted or renewed. The wall clock counts a suspended machine's sleep."""
        return max(now - then for now, then in zip(_clocks(), self._renewed, strict=True))

    def renewed(self, at: tuple[float, float]) -> None:
        self._renewed = at


class PrefectLimit:
    """Every method raises NoAnswer if the API has no answer in time."""

    def __init__(
        self, client: PrefectClient, name: str, within_seconds: float = REQUEST_SECONDS
    ) -> None:
        self._client = client
        self.name = name
        self._within = within_seconds

    async def ensure(self, slots: int, decay_per_second: float = 0.0, *, overwrite: bool) -> None:
        """Create the limit if there is none; change one that stands only if told to."""
        wanted: dict[str, Any] = {"limit": slots, "slot_decay_per_second": decay_per_second}
        try:
            standing = await self.read()
        except LimitMissing:
            try:
                async with _asking(self._within):
                    await self._client.create_global_concurrency_limit(
                        GlobalConcurrencyLimitCreate(name=self.name, **wanted)
                    )
                return
            except (NoAnswer, ObjectAlreadyExists):  # another process was faster
                standing = await self.read()
        as_wanted = standing.slots == slots and standing.decay_per_second == decay_per_second
        if overwrite and not as_wanted:
            async with _asking(self._within):
                await self._client.update_global_concurrency_limit(
                    self.name, GlobalConcurrencyLimitUpdate(active=True, **wanted)
                )

    async def read(self) -> Reading:
        async with _asking(self._within):
            now = await self._client.read_global_concurrency_limit_by_name(self.name)
        return Reading(
            slots=now.limit if now.active else None,
            taken=now.active_slots,
            decay_per_second=now.slot_decay_per_second,
        )

    async def take(self, slots: int, holder: UUID | None = None) -> Lease | None:
        """A lease of so many slots; None if not so many are free.

        The holder's id is listed by `holders`. Prefect lists holders of this one type only.
        """
        asked = _clocks()
        holding = ConcurrencyLeaseHolder(type="task_run", id=holder) if holder else None
        try:
            async with _asking(self._within):
                reply = await self._client.increment_concurrency_slots_with_lease(
                    [self.name], slots, "concurrency", LEASE_SECONDS, holding
                )
        except _Full:
            return None
        granted = reply.json()
        if not granted["limits"]:  # Prefect grants anything on a limit that does not exist
            raise LimitMissing(f"no limit {self.name} at the Prefect API")
        return Lease(UUID(granted["lease_id"]), slots, asked)

    async def renew(self, lease: Lease) -> bool:
        """False: the server does not know the lease any more."""
        asked = _clocks()
        try:
            async with _asking(self._within):
                await self._client.renew_concurrency_lease(lease.id, LEASE_SECONDS)
        except _Gone:
            return False
        lease.renewed(asked)
        return True

    async def give_back(self, lease: Lease) -> None:
        async with _asking(self._within):
            await self._client.release_concurrency_slots_with_lease(lease.id)

    async def uncount(self, lease: Lease) -> None:
        """Free the slots of a lease that the server forgot (leases in memory, and a restart)."""
        async with _asking(self._within):
            await self._client.release_concurrency_slots([self.name], lease.slots, LEASE_SECONDS)

    async def count(self, slots: int) -> bool:
        """Add to a limit with decay; False if that would exceed it."""
        try:
            async with _asking(self._within):
                reply = await self._client.increment_concurrency_slots(
                    [self.name], slots, "rate_limit"
                )
        except _Full:
            return False
        if not reply.json():
            raise LimitMissing(f"no limit {self.name} at the Prefect API")
        return True

    async def holders(self) -> list[UUID]:
        """Of the leases that are alive; for tag limits only."""
        async with _asking(self._within):
            limit = await self._client.read_concurrency_limit_by_tag(self.name.removeprefix("tag:"))
        return list(limit.active_slots)


def open_client() -> PrefectClient:
    """A client of our own: with settings given, Prefect does not hand out the flow run's."""
    return get_client(httpx_settings={"timeout": REQUEST_SECONDS})


class _Full(NoAnswer):
    pass


class _Gone(NoAnswer):
    pass


@asynccontextmanager
async def _asking(within_seconds: float) -> AsyncIterator[None]:
    """Prefect's client retries for minutes; who waits here has leases to renew meanwhile."""
    try:
        async with asyncio.timeout(within_seconds):
            yield
    except ObjectNotFound as error:
        raise LimitMissing("no such limit at the Prefect API") from error
    except httpx.HTTPStatusError as error:
        match error.response.status_code:
            case 423 | 422:  # none free; more asked for than the limit has in all
                raise _Full("the slots are taken") from error
            case 410:
                raise _Gone("the lease is gone") from error
        raise NoAnswer(f"the Prefect API: HTTP {error.response.status_code}") from error
    except TimeoutError as error:
        raise NoAnswer(f"the Prefect API did not answer in {within_seconds:g} s") from error
    except httpx.HTTPError as error:
        raise NoAnswer(f"the Prefect API: {type(error).__name__} {error}".strip()) from error


def _clocks() -> tuple[float, float]:
    return time.monotonic(), time.time()
