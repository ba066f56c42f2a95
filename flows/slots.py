"""Slots of a provider, shared by every run on the same Prefect API.

The limit is Prefect's concurrency limit of the tag `provider:<id>`. A run leases slots of it in
small pieces over one client, hands them to its attempts in this process (a freed slot is used
again at once, without a request) and renews all of them from one task. Which part of the limit a
run may hold follows from what all of them want (fair_shares.py): what it has beyond that, it gives
back as attempts end. Attempts' task runs must not carry the tag: the engine would limit them too.
"""

import asyncio
import logging
import random
from collections.abc import AsyncIterator, Awaitable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Self

from agentcompass.flows.fair_shares import Wishes, fair_share
from agentcompass.flows.prefect_limit import (
    LEASE_SECONDS,
    Lease,
    LimitMissing,
    NoAnswer,
    PrefectLimit,
    Reading,
    open_client,
)
from agentcompass.flows.server import ServerProblem
from agentcompass.flows.slot_queue import SlotQueue

log = logging.getLogger(__name__)

DEFAULT_LIMIT = 128
OPEN_WITHIN_SECONDS = 30
CLOSE_WITHIN_SECONDS = 4
RENEW_AFTER_SECONDS = LEASE_SECONDS / 3
LOOK_SECONDS = 1.5
LOOK_SECONDS_A_RUN = 0.1
"""With many runs on one API each looks less often: ten looks a second in all."""
LARGEST_LEASE = 4
TELL_WAITING_AFTER_SECONDS = 10


class ProviderSlots:
    """Satisfies execution.capacity.Slots within its `async with` block, on one event loop."""

    def __init__(self, provider: str, limit: int | None, wanted: int) -> None:
        """`limit`: what the user set, 0 for none at all; None: 128, unless one stands already.
        `wanted`: the most that this run can use at once.
        """
        self.provider = provider
        self._chosen = limit
        self._ceiling = wanted
        self._leases: list[Lease] = []
        self._leaving: list[Lease] = []
        self._wake = asyncio.Event()
        self._queue = SlotQueue(on_more=self._look_soon, on_free=self._wake_if_leaving)
        self._look_at = 0.0  # loop time
        self._runs = 1
        self._closing = False
        self._opened = AsyncExitStack()
        self._trouble: str | None = None
        self._empty_since: float | None = None

    async def __aenter__(self) -> Self:
        """Raises ServerProblem if the API has no answer for half a minute."""
        if self._chosen == 0:
            return self
        client = await self._opened.enter_async_context(open_client())
        self._limit = PrefectLimit(client, f"tag:provider:{self.provider}")
        self._wishes = Wishes(client, f"provider:{self.provider}")
        try:
            await self._open()
        except BaseException:
            await self._opened.aclose()
            raise
        self._queue.want(self._ceiling)
        self._keeper = asyncio.create_task(self._keep())
        return self

    async def __aexit__(self, *ending: object) -> None:
        if self._chosen != 0:
            await _in_spite_of_cancellation(self._close())

    @asynccontextmanager
    async def held(self) -> AsyncIterator[None]:
        """One slot for one physical attempt. It is never taken away while the attempt runs."""
        if self._chosen == 0:
            yield
            return
        if self._closing:
            raise RuntimeError("the slots of this run are given back already")
        await self._queue.take()
        try:
            yield
        finally:
            self._queue.free()

    def needs(self, count: int) -> None:
        """At most so many slots will be used at once from now on: the attempts that are left."""
        self._ceiling = min(self._ceiling, max(0, count))
        if self._ceiling < self._held and not self._closing:
            self._look_soon(0.3)  # one look for many attempts that end together

    async def _open(self) -> None:
        deadline = asyncio.get_running_loop().time() + OPEN_WITHIN_SECONDS
        while True:
            try:
                await self._ensure()
                return
            except NoAnswer as error:
                if asyncio.get_running_loop().time() > deadline:
                    raise ServerProblem(f"no limit for {self.provider}: {error}") from error
                await asyncio.sleep(1)

    async def _ensure(self) -> None:
        explicit = self._chosen is not None
        await self._limit.ensure(self._chosen or DEFAULT_LIMIT, overwrite=explicit)
        await self._wishes.ensure()

    async def _keep(self) -> None:
        """Renew, give back, look and take until closed. Nothing ends this early."""
        failures = 0
        while not self._closing:
            self._wake.clear()
            try:
                await self._renew()
                await self._give_back()
                if asyncio.get_running_loop().time() >= self._look_at:
                    await self._look()
                    await self._give_back()
                failures = 0
                self._tell_trouble(None)
            except NoAnswer as error:
                failures += 1
                self._tell_trouble(str(error))
            except Exception as error:  # without this task, attempts would wait for ever
                failures += 1
                log.exception("keeping the slots of %s failed", self.provider)
                self._tell_trouble(repr(error))
            await self._pause(failures)

    async def _renew(self) -> None:
        await self._wishes.renew(RENEW_AFTER_SECONDS)
        for lease in list(self._leases):
            if lease.age_seconds < RENEW_AFTER_SECONDS or await self._limit.renew(lease):
                continue
            forgotten = lease.age_seconds < LEASE_SECONDS - 5
            self._drop([lease])
            self._look_soon()
            if forgotten:  # a server with leases in memory restarted: counted, but never freed
                await self._limit.uncount(lease)

    async def _give_back(self) -> None:
        for lease in list(self._leaving):
            if self._held - lease.slots >= self._queue.busy:
                self._drop([lease])  # first: whatever the answer, it is not ours any more
                await self._limit.give_back(lease)

    async def _look(self) -> None:
        """Read the limit and everybody's wishes; hold what is ours of it, neither more nor less."""
        pause = max(LOOK_SECONDS, LOOK_SECONDS_A_RUN * self._runs) * random.uniform(0.7, 1.1)
        self._look_at = asyncio.get_running_loop().time() + pause
        wanted = min(self._ceiling, self._queue.wanted)
        reading = await self._read()
        share = min(wanted, await self._share(wanted, reading))
        self._leaving = to_give_back(self._leases, self._held - share)
        self._rebind()
        missing = share - self._held
        free = missing if reading.free is None else min(missing, reading.free)
        while free > 0 and not self._closing:
            slots = max(1, min(LARGEST_LEASE, free // 8))
            lease = await self._limit.take(slots)
            if lease is None:
                break  # somebody was faster
            self._leases.append(lease)
            self._rebind()
            free -= slots
        self._tell_waiting(reading)

    async def _read(self) -> Reading:
        try:
            return await self._limit.read()
        except LimitMissing:  # an operator deleted it, and with it the count of our leases
            self._drop(self._leases)
            await self._ensure()
            return await self._limit.read()

    async def _share(self, wanted: int, reading: Reading) -> int:
        try:
            await self._wishes.tell(wanted)
            wishes = await self._wishes.read()
        except NoAnswer as error:  # less fair, as limited
            log.debug("what others want of %s is not known: %s", self.provider, error)
            if isinstance(error, LimitMissing):
                await self._wishes.ensure()
            return wanted
        self._runs = len(wishes)
        if reading.slots is None:
            return wanted
        return fair_share(reading.slots, wishes, self._wishes.me)

    @property
    def _held(self) -> int:
        return sum(lease.slots for lease in self._leases)

    def _drop(self, leases: Sequence[Lease]) -> None:
        gone = set(leases)
        self._leases = [lease for lease in self._leases if lease not in gone]
        self._leaving = [lease for lease in self._leaving if lease not in gone]
        self._rebind()

    def _rebind(self) -> None:
        self._queue.bind(self._held - sum(lease.slots for lease in self._leaving))

    def _look_soon(self, seconds: float = 0.0) -> None:
        self._look_at = min(self._look_at, asyncio.get_running_loop().time() + seconds)
        self._wake.set()

    def _wake_if_leaving(self) -> None:
        if self._leaving:
            self._wake.set()

    async def _pause(self, failures: int) -> None:
        """Until the next look is due or something is to be given back; longer after failures."""
        if failures:
            await asyncio.sleep(min(2.0**failures / 4, 8.0) * random.uniform(0.7, 1.3))
            return
        await asyncio.sleep(0.05)
        with suppress(TimeoutError):
            due = self._look_at - asyncio.get_running_loop().time()
            await asyncio.wait_for(self._wake.wait(), max(0.0, due))

    def _tell_waiting(self, reading: Reading) -> None:
        """Once for each time that this run has to wait for its first slot."""
        now = asyncio.get_running_loop().time()
        if self._held or not self._queue.waiting:
            self._empty_since = None
        elif self._empty_since is None:
            self._empty_since = now
        elif now - self._empty_since > TELL_WAITING_AFTER_SECONDS:
            self._empty_since = float("inf")
            log.warning(
                "no slot of %s yet: %d of %s are taken by runs on this Prefect API "
                "(--provider-limit %s=N changes the limit for all of them)",
                self.provider,
                reading.taken,
                reading.slots,
                self.provider,
            )

    def _tell_trouble(self, trouble: str | None) -> None:
        """Once when it begins and once when it ends."""
        if trouble and not self._trouble:
            log.warning("%s; going on with the %d slots held", trouble, self._held)
        elif self._trouble and not trouble:
            log.info("the Prefect API answers again; %d slots held", self._held)
        self._trouble = trouble

    async def _close(self) -> None:
        self._closing = True
        self._look_soon()
        # A request under way may grant a lease: better to learn of it than to leave it to expire.
        await asyncio.wait({self._keeper}, timeout=CLOSE_WITHIN_SECONDS / 2)
        self._keeper.cancel()
        # What is not given back now expires in a minute.
        with suppress(TimeoutError):
            async with asyncio.timeout(1 if self._trouble else CLOSE_WITHIN_SECONDS):
                with suppress(NoAnswer):
                    await self._wishes.leave()
                for lease in self._leases:
                    with suppress(NoAnswer):
                        await self._limit.give_back(lease)
        with suppress(TimeoutError):
            async with asyncio.timeout(1):
                await self._opened.aclose()


def to_give_back(leases: Sequence[Lease], excess: int) -> list[Lease]:
    """Leases with so many slots in all, or a few more if it does not come out even."""
    chosen: list[Lease] = []
    for lease in sorted(leases, key=lambda lease: lease.slots, reverse=True):
        if lease.slots <= excess:
            chosen.append(lease)
            excess -= lease.slots
    if excess > 0:
        rest = [lease for lease in leases if lease not in chosen]
        chosen += sorted(rest, key=lambda lease: lease.slots)[:1]
    return chosen


async def _in_spite_of_cancellation(work: Awaitable[None]) -> None:
    """Finish the work, which is bounded; a cancellation meanwhile rises after it."""
    working, cancelled = asyncio.ensure_future(work), False
    while not working.done():
        try:
            await asyncio.shield(working)
        except asyncio.CancelledError:
            cancelled = True
    working.result()
    if cancelled:
        raise asyncio.CancelledError
