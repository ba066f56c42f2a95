"""How the runs on one Prefect API share a limit: each tells what it wants, all compute the same.

A run's entry is a lease on a second limit, so that it ends with the run, however that ends. The
id of the lease's holder, free text to Prefect, says who (112 bits) wants how many (16 bits).
"""

import hashlib
import secrets
import time
from collections.abc import Mapping
from uuid import UUID

from prefect.client.orchestration import PrefectClient

from agentcompass.flows.prefect_limit import Lease, PrefectLimit

RUNS = 10_000
"""More runs at once than will ever share an API; the entries are not what is limited."""

TURN_SECONDS = 60
"""Where there are more runs than slots, who has none changes so often."""

_BITS = 16


class Wishes:
    """Who wants how many slots of one limit, this run among them."""

    def __init__(self, client: PrefectClient, of: str) -> None:
        self._limit = PrefectLimit(client, f"tag:wanted:{of}")
        self.me = secrets.randbits(128 - _BITS)
        self._entry: Lease | None = None
        self._told = 0

    async def ensure(self) -> None:
        self._entry = None
        await self._limit.ensure(RUNS, overwrite=False)

    async def tell(self, wanted: int) -> None:
        """Enter what this run wants in all; no request if that stands there already."""
        wanted = min(wanted, (1 << _BITS) - 1)
        if self._entry is not None and wanted == self._told:
            return
        before = self._entry
        self._entry = await self._limit.take(1, UUID(int=(self.me << _BITS) | wanted))
        self._told = wanted
        if before is not None:
            await self._limit.give_back(before)

    async def renew(self, after_seconds: float) -> None:
        entry = self._entry
        if entry is None or entry.age_seconds < after_seconds:
            return
        if not await self._limit.renew(entry):
            self._entry = None  # told again at the next look

    async def read(self) -> dict[int, int]:
        wishes: dict[int, int] = {}
        for holder in await self._limit.holders():
            who, wanted = holder.int >> _BITS, holder.int & ((1 << _BITS) - 1)
            wishes[who] = max(wanted, wishes.get(who, 0))  # two entries while one is replaced
        return wishes | {self.me: self._told}

    async def leave(self) -> None:
        entry, self._entry = self._entry, None
        if entry is not None:
            await self._limit.give_back(entry)


def fair_share(slots: int, wishes: Mapping[int, int], me: int, at: float | None = None) -> int:
    """What `me` may hold: nobody gets more than it wants, nor less than an equal part of the rest.

    All runs compute the same from the same wishes (max-min fairness). With fewer slots than runs
    the ones that come out empty change every minute of the wall clock (`at`, in seconds).
    """
    runs = [who for who in wishes if wishes[who]]
    scarce = slots < len(runs)
    turn = int((time.time() if at is None else at) // TURN_SECONDS) if scarce else 0

    def order(who: int) -> tuple[int, str]:
        by_lot = hashlib.sha256(f"{turn}:{who}".encode()).hexdigest()
        return (0 if scarce else wishes[who]), by_lot

    left = slots
    for position, who in enumerate(sorted(runs, key=order)):
        share = min(wishes[who], left // (len(runs) - position))
        if who == me:
            return share
        left -= share
    return 0
