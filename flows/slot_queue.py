"""Hand slots to the attempts of this process: at once if one is free, else in order of asking."""

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import suppress

WISH_SECONDS = 5.0
"""Slots that were wanted within this time are still wanted: attempts end and begin."""


class SlotQueue:
    """Used on one event loop. Calls `on_more` when more is wanted than lately and none is free,
    `on_free` when an attempt has ended.
    """

    def __init__(self, on_more: Callable[[], None], on_free: Callable[[], None]) -> None:
        self.busy = 0
        self._bound = 0
        self._on_more, self._on_free = on_more, on_free
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._peaks: deque[tuple[float, int]] = deque()
        """(loop time, slots wanted then); later ones are smaller."""

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    async def take(self) -> None:
        if self.busy < self._bound and not self._waiting:
            self.busy += 1
            self.want(self.busy)
            return
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(place)
        if self.want(self.busy + len(self._waiting)):
            self._on_more()
        try:
            await place
        except asyncio.CancelledError:
            if place.done() and not place.cancelled():
                self.free()  # it was given in the moment of the cancellation
            else:
                with suppress(ValueError):
                    self._waiting.remove(place)
            raise

    def free(self) -> None:
        self.busy -= 1
        self._hand_out()
        self._on_free()

    def bind(self, bound: int) -> None:
        """So many may be busy from now on. Those that are stay so, if they are more."""
        self._bound = bound
        self._hand_out()

    def want(self, slots: int) -> bool:
        """Remember that so many are wanted now; true if that is more than lately."""
        now = self._drop_old_peaks()
        more = not self._peaks or slots > self._peaks[0][1]
        while self._peaks and self._peaks[-1][1] <= slots:
            self._peaks.pop()
        self._peaks.append((now, slots))
        return more

    @property
    def wanted(self) -> int:
        """The most slots that were wanted lately."""
        self._drop_old_peaks()
        return max(self.busy + len(self._waiting), self._peaks[0][1] if self._peaks else 0)

    def _hand_out(self) -> None:
        while self._waiting and self.busy < self._bound:
            place = self._waiting.popleft()
            if not place.done():
                self.busy += 1
                place.set_result(None)

    def _drop_old_peaks(self) -> float:
        now = asyncio.get_running_loop().time()
        while self._peaks and now - self._peaks[0][0] > WISH_SECONDS:
            self._peaks.popleft()
        return now
