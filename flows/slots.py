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
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from types import TracebackType
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

log = logging.getLogger(__name__)

DEFAULT_LIMIT = 128
OPEN_WITHIN_SECONDS = 30
CLOSE_WITHIN_SECONDS = 5
RENEW_AFTER_SECONDS = LEASE_SECONDS / 3
LOOK_SECONDS = 1.5
LOOK_SECONDS_A_RUN = 0.1
"""With many runs on one API each looks less often: ten looks a second in all."""
WISH_SECONDS = 5.0
"""Slots that were wanted within this time are still wanted: attempts end and begin."""
LARGEST_LEASE = 4
TELL_WAITING_AFTER_SECONDS = 10


class ProviderSlots:
    """Satisfies execution.capacity.Slots within its `async with` block, on one event loop."""

    def __init__(self, provider: str, limit: int | None, wanted: int) -> None:
        """`limit`: what the user set, 0 for none at all; None: 128, unless one stands already.
        `wanted`: the most that this run can use at once.
        """
        self.provider = provider
        self._wish = limit
        self._ceiling = wanted
        self._busy = 0
        self._bound = 0  # so many may be busy: held, less what is about to be given back
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._peaks: deque[tuple[float, int]] = deque()  # (loop time, slots wanted then)
        self._leases: list[Lease] = []
        self._leaving: list[Lease] = []
        self._wake = asyncio.Event()
        self._look_at = 0.0
        self._closing = False
        self._opened = AsyncExitStack()
        self._trouble: str | None = None
        self._empty_since: float | None = None
        self._told_waiting = False

    async def __aenter__(self) -> Self:
        """Raises ServerProblem if the API has no answer for half a minute."""
        if self._wish == 0:
            return self
        client = await self._opened.enter_async_context(open_client())
        self._limit = PrefectLimit(client, f"tag:provider:{self.provider}")
        self._wishes = Wishes(client, f"provider:{self.provider}")
        try:
            await self._ensure_limit()
        except BaseException:
            await self._opened.aclose()
            raise
        self._note(self._ceiling)
        self._keeper = asyncio.create_task(self._keep())
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._wish != 0:
            await _in_spite_of_cancellation(self._close())

    @asynccontextmanager
    async def held(self) -> AsyncIterator[None]:
        """One slot for one physical attempt. It is never taken away while the attempt runs."""
        if self._wish == 0:
            yield
            return
        await self._take()
        try:
            yield
        finally:
            self._free()

    def needs(self, count: int) -> None:
        """At most so many slots will be used at once from now on: the attempts that are left."""
        self._ceiling = min(self._ceiling, max(0, count))
        if self._ceiling < self._held:
            self._look_soon(0.3)  # one look for many attempts that end together

    # In this process

    async def _take(self) -> None:
        if self._closing:
            raise RuntimeError("the slots of this run are given back already")
        if self._busy < self._bound and not self._waiting:
            self._busy += 1
            self._note(self._busy)
            return
        place = asyncio.get_running_loop().create_future()
        self._waiting.append(place)
        if self._note(self._busy + len(self._waiting)):
            self._look_soon()
        try:
            await place
        except asyncio.CancelledError:
            if place.done() and not place.cancelled():
                self._free()  # it was given in the moment of the cancellation
            else:
                with suppress(ValueError):
                    self._waiting.remove(place)
            raise

    def _free(self) -> None:
        self._busy -= 1
        self._hand_out()
        if self._leaving:
            self._wake.set()

    def _hand_out(self) -> None:
        while self._waiting and self._busy < self._bound:
            place = self._waiting.popleft()
            if not place.done():
                self._busy += 1
                place.set_result(None)

    def _note(self, wanted: int) -> bool:
        """Remember what is wanted now; true if it is more than lately."""
        now = asyncio.get_running_loop().time()
        more = all(before < wanted for _, before in self._peaks)
        while self._peaks and self._peaks[-1][1] <= wanted:
            self._peaks.pop()
        self._peaks.append((now, wanted))
        return more

    @property
    def _wanted(self) -> int:
        """The most that was wanted lately; the deque's figures fall from left to right."""
        now = asyncio.get_running_loop().time()
        while self._peaks and now - self._peaks[0][0] > WISH_SECONDS:
            self._peaks.popleft()
        current = self._busy + len(self._waiting)
        return min(self._ceiling, max(current, self._peaks[0][1] if self._peaks else 0))

    @property
    def _held(self) -> int:
        return sum(lease.slots for lease in self._leases)

    def _look_soon(self, seconds: float = 0.0) -> None:
        self._look_at = min(self._look_at, asyncio.get_running_loop().time() + seconds)
        self._wake.set()

    # At the API

    async def _ensure_limit(self) -> None:
        deadline = asyncio.get_running_loop().time() + OPEN_WITHIN_SECONDS
        while True:
            try:
                await self._limit.ensure(
                    self._wish or DEFAULT_LIMIT, overwrite=self._wish is not None
                )
                await self._wishes.ensure()
                return
            except NoAnswer as error:
                if asyncio.get_running_loop().time() > deadline:
                    raise ServerProblem(f"no limit for {self.provider}: {error}") from error
                await asyncio.sleep(1)

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
            lost_by_server = lease.age_seconds < LEASE_SECONDS - 5
            self._drop([lease])
            self._look_at = 0.0
            if lost_by_server:  # it restarted with leases in memory: still counted, never freed
                await self._limit.uncount(lease)

    async def _give_back(self) -> None:
        for lease in list(self._leaving):
            if self._held - lease.slots >= self._busy:
                self._drop([lease])  # first: whatever the answer, it is not ours any more
                await self._limit.give_back(lease)

    async def _look(self) -> None:
        """Read the limit and everybody's wishes; hold what is ours of it, neither more nor less."""
        reading, share = await self._read_share()
        self._leaving = to_give_back(self._leases, self._held - share)
        self._rebound()
        missing = share - self._held
        free = missing if reading.free is None else min(missing, reading.free)
        while free > 0 and not self._closing:
            slots = max(1, min(LARGEST_LEASE, free // 8))
            lease = await self._limit.take(slots, None)
            if lease is None:
                break
            self._leases.append(lease)
            self._rebound()
            free -= slots
        self._tell_waiting(reading)

    async def _read_share(self) -> tuple[Reading, int]:
        wanted = self._wanted
        try:
            reading = await self._limit.read()
        except LimitMissing:  # an operator deleted it, and with it what it knew of our leases
            self._drop(self._leases)
            await self._ensure_limit()
            reading = await self._limit.read()
        share, runs = wanted, 1
        try:
            await self._wishes.tell(wanted)
            wishes = await self._wishes.read()
            runs = len(wishes)
            if reading.slots is not None:
                share = fair_share(reading.slots, wishes, self._wishes.me)
        except NoAnswer as error:  # less fair, as limited
            log.debug("what others want of %s is not known: %s", self.provider, error)
            if isinstance(error, LimitMissing):
                await self._wishes.ensure()
        pause = max(LOOK_SECONDS, LOOK_SECONDS_A_RUN * runs)
        self._look_at = asyncio.get_running_loop().time() + pause * random.uniform(0.7, 1.1)
        return reading, share

    def _drop(self, leases: Sequence[Lease]) -> None:
        gone = set(leases)
        self._leases = [lease for lease in self._leases if lease not in gone]
        self._leaving = [lease for lease in self._leaving if lease not in gone]
        self._rebound()

    def _rebound(self) -> None:
        self._bound = self._held - sum(lease.slots for lease in self._leaving)
        self._hand_out()

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
        now = asyncio.get_running_loop().time()
        if self._held or not self._waiting:
            self._empty_since, self._told_waiting = None, False
        elif self._empty_since is None:
            self._empty_since = now
        elif not self._told_waiting and now - self._empty_since > TELL_WAITING_AFTER_SECONDS:
            self._told_waiting = True
            log.warning(
                "no slot of %s yet: %s of %s are taken by others (limit %s in the Prefect UI)",
                self.provider,
                reading.taken,
                reading.slots,
                self._limit.name,
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
        self._wake.set()
        # A request under way may grant a lease: better to learn of it than to leave it to expire.
        await asyncio.wait({self._keeper}, timeout=CLOSE_WITHIN_SECONDS / 2)
        self._keeper.cancel()
        with suppress(TimeoutError, NoAnswer):  # what is not given back now expires in a minute
            async with asyncio.timeout(CLOSE_WITHIN_SECONDS):
                await self._wishes.leave()
                for lease in self._leases:
                    await self._limit.give_back(lease)
        with suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_WITHIN_SECONDS / 2):
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
