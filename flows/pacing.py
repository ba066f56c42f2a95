"""How often sandboxes of a provider open, over every run on the same Prefect API.

Prefect's rate limit is a count that decays. Used as its own `rate_limit()` does (ask, be refused,
wait, ask again) it comes out 15-40 % slow and bursts first: each grant rounds the decay down to
whole slots, each refusal throws the decay since the last grant away. So here

- an opening counts 100 slots, which makes the rounding a hundredth of an opening;
- the limit is far above what is ever counted, so that nothing is refused: a run adds its
  openings first, reads how high the count stands, and opens when what was counted before its own
  has decayed. The count is a queue, and its decay is the pace.

One request books several turns where the pace is fast; they are spread in this process.
"""

import asyncio
import logging
from collections import deque
from contextlib import AsyncExitStack, suppress
from typing import Self

from agentcompass.flows.prefect_limit import LimitMissing, NoAnswer, PrefectLimit, open_client

log = logging.getLogger(__name__)

SLOTS_AN_OPENING = 100
QUEUE_OPENINGS = 100_000
"""More than all runs together ever book ahead: never reached."""
BOOKED_SECONDS = 0.5
"""So much of the pace is booked in one request."""
LEAD_SECONDS = 0.4
"""So long before the last booked turn the next ones are asked for."""
ANSWER_WITHIN_SECONDS = 5
WITHOUT_API_SECONDS = 30
"""After a failure the run keeps the pace by itself for so long before it asks again."""
CLOSE_WITHIN_SECONDS = 2


class OpeningPace:
    """Satisfies execution.capacity.Pace within its `async with` block, on one event loop."""

    def __init__(self, provider: str, qps: float, named: bool = True) -> None:
        """`qps`: openings per second of all runs together; 0: no pacing, and no request. `named`:
        the user asked for it, so that it replaces what stands at the API."""
        self.provider = provider
        self._qps = qps
        self._named = named
        self._interval = 1 / qps if qps else 0.0  # seconds, as the API has it
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._turns: deque[float] = deque()  # booked, as loop times
        self._booking: asyncio.Task[None] | None = None
        self._last = float("-inf")
        self._more = asyncio.Event()
        self._opened = AsyncExitStack()
        self._alone_until = 0.0
        self._trouble = False

    async def __aenter__(self) -> Self:
        """An API that does not answer is no error: this run then keeps the pace by itself."""
        if self._qps:
            client = await self._opened.enter_async_context(open_client())
            self._limit = PrefectLimit(client, f"env-open:{self.provider}", ANSWER_WITHIN_SECONDS)
            try:
                await self._ensure_limit()
            except NoAnswer as error:
                self._tell_trouble(error)
            self._giver = asyncio.create_task(self._give())
        return self

    async def __aexit__(self, *ending: object) -> None:
        if not self._qps:
            return
        self._giver.cancel()
        if self._booking is not None:
            self._booking.cancel()
        with suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_WITHIN_SECONDS):
                await self._opened.aclose()

    async def turn(self) -> None:
        """Wait until a sandbox may be opened."""
        if not self._qps:
            return
        place = asyncio.get_running_loop().create_future()
        self._waiting.append(place)
        self._more.set()
        try:
            await place
        finally:  # cancelled: its turn goes to the next one
            with suppress(ValueError):
                self._waiting.remove(place)

    async def _give(self) -> None:
        clock = asyncio.get_running_loop().time
        while True:
            while not self._waiting:
                self._more.clear()
                await self._more.wait()
                while self._turns and self._turns[0] < clock() - self._interval:
                    self._turns.popleft()  # booked for some that went away: no burst of them
            self._book_ahead()
            if not self._turns:
                assert self._booking is not None
                await asyncio.wait({self._booking})
                continue
            # A late turn does not make the next ones a burst.
            at = max(self._turns[0], self._last + self._interval / 2)
            ask_at = self._turns[-1] - LEAD_SECONDS
            if (now := clock()) < at:
                before = at - now if self._booking or ask_at <= now else min(at, ask_at) - now
                await asyncio.sleep(before)
                continue
            self._turns.popleft()
            self._last = now
            while self._waiting:
                place = self._waiting.popleft()
                if not place.done():
                    place.set_result(None)
                    break

    def _book_ahead(self) -> None:
        """See that turns for those who wait are booked, not too far ahead of the other runs."""
        if self._booking is not None and self._booking.done():
            self._booking = None
        unbooked = len(self._waiting) - len(self._turns)
        now = asyncio.get_running_loop().time()
        soon = not self._turns or self._turns[-1] - now <= LEAD_SECONDS
        if self._booking is None and unbooked > 0 and soon:
            count = min(unbooked, max(1, int(BOOKED_SECONDS / self._interval)))
            self._booking = asyncio.create_task(self._book(count))

    async def _book(self, count: int) -> None:
        clock = asyncio.get_running_loop().time
        last = self._turns[-1] if self._turns else self._last
        first = max(clock(), last + self._interval)
        if clock() >= self._alone_until:
            try:
                ahead = await self._count(count)
                first = clock() + (ahead - count) * self._interval
                self._trouble = False
            except NoAnswer as error:
                self._tell_trouble(error)
                self._interval = 1 / self._qps
                first = max(clock(), last + self._interval)
            except Exception as error:  # openings must not wait for ever
                log.exception("booking openings of %s failed", self.provider)
                self._tell_trouble(NoAnswer(repr(error)))
        self._turns.extend(first + number * self._interval for number in range(count))

    async def _count(self, count: int) -> float:
        """Book so many openings; how many are booked then, these among them."""
        try:
            counted = await self._limit.count(count * SLOTS_AN_OPENING)
        except LimitMissing:
            await self._ensure_limit()
            counted = await self._limit.count(count * SLOTS_AN_OPENING)
        reading = await self._limit.read()
        if not counted or reading.slots is None or not reading.decay_per_second:
            raise NoAnswer(f"{self._limit.name} was changed at the Prefect API to no pace")
        # The last run that named a pace for this provider set it for all.
        self._interval = SLOTS_AN_OPENING / reading.decay_per_second
        return reading.taken / SLOTS_AN_OPENING

    async def _ensure_limit(self) -> None:
        await self._limit.ensure(
            QUEUE_OPENINGS * SLOTS_AN_OPENING,
            SLOTS_AN_OPENING * self._qps,
            overwrite=self._named,
        )

    def _tell_trouble(self, error: NoAnswer) -> None:
        self._alone_until = asyncio.get_running_loop().time() + WITHOUT_API_SECONDS
        if not self._trouble:
            log.warning("%s; this run opens sandboxes at %g a second by itself", error, self._qps)
        self._trouble = True
