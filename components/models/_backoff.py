"""How all calls of one provider slow down together when it refuses for rate, and recover."""

import asyncio
import random
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

LONGEST_DELAY = 30.0
LONGEST_SHARED_PAUSE = 15.0


def delay_before(retry: int, asked: float | None) -> float:
    """Seconds before the retry-th retry (from 1), with jitter so that calls do not march in step.

    What the endpoint asked for is a lower bound; else 1, 2, 4, … up to 30, each minus up to half.
    """
    own = min(LONGEST_DELAY, 2.0 ** (retry - 1)) * random.uniform(0.5, 1.0)
    if asked is not None and asked > 0:
        return asked * random.uniform(1.0, 1.1) + random.uniform(0.0, 0.25)
    return own


class Throttle:
    """An adaptive limit of calls in flight, and a pause for all of them.

    A refusal halves the limit (once per pause) and pauses every call; each success raises the
    limit by one, until it no longer binds.
    """

    def __init__(self) -> None:
        self.in_flight = 0
        self.limit: int | None = None
        self._paused_until = 0.0
        self._changed = asyncio.Event()

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[None]:
        await self._wait()
        self.in_flight += 1
        try:
            yield
        finally:
            self.in_flight -= 1
            self._wake()

    def refused(self, seconds: float) -> None:
        """Called by the refused call while it still holds its slot."""
        now = time.monotonic()
        if now >= self._paused_until:
            self.limit = max(1, min(self.in_flight, self.limit or self.in_flight) // 2)
        pause = now + min(seconds, LONGEST_SHARED_PAUSE)
        self._paused_until = max(self._paused_until, pause)

    def succeeded(self) -> None:
        if self.limit is not None:
            self.limit += 1
            if self.limit > 2 * self.in_flight + 8:
                self.limit = None
            self._wake()

    async def _wait(self) -> None:
        while True:
            pause = self._paused_until - time.monotonic()
            if pause > 0:
                await asyncio.sleep(pause + random.uniform(0.0, 0.1))
            elif self.limit is not None and self.in_flight >= self.limit:
                await self._changed.wait()
            else:
                return

    def _wake(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()
