"""One attempt's account: usage, time inside calls, time lost to waiting."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from agentcompass.components.contracts.usage import Usage


class Meter:
    """Adds up what an attempt's calls used. Times are seconds.

    Model time is that of tries which ended the call, with an answer or a refusal. Waiting is all
    else a call took: back-off, queueing, and tries that were in vain and had to be repeated.
    """

    def __init__(self) -> None:
        self.usage = Usage()
        self.model_seconds = 0.0
        self._waited = 0.0
        self._open: list[OpenCall] = []

    @contextmanager
    def call(self) -> Iterator["OpenCall"]:
        opened = OpenCall()
        self._open.append(opened)
        try:
            yield opened
        finally:
            self._open.remove(opened)
            elapsed = time.monotonic() - opened.began
            worked = max(elapsed - opened.waited_until_now(), 0.0)
            self.model_seconds += worked
            self._waited += elapsed - worked

    def add(self, usage: Usage) -> None:
        self.usage = self.usage + usage

    @property
    def waiting_seconds(self) -> float:
        """Up to this moment, a wait under way included."""
        return self._waited + sum(call.waited_until_now() for call in self._open)

    @property
    def pending_seconds(self) -> float:
        """Since the oldest call under way began; 0 without one."""
        now = time.monotonic()
        return max((now - call.began for call in self._open), default=0.0)


class OpenCall:
    """A call under way: waiting, except while a try is in flight."""

    def __init__(self) -> None:
        self.began = time.monotonic()
        self._trying_since: float | None = None
        self._kept = 0.0

    def try_begins(self) -> None:
        self._trying_since = time.monotonic()

    def try_ends(self, *, in_vain: bool) -> float:
        """Seconds of the try. One in vain becomes waiting."""
        assert self._trying_since is not None
        seconds = time.monotonic() - self._trying_since
        self._trying_since = None
        if not in_vain:
            self._kept += seconds
        return seconds

    def waited_until_now(self) -> float:
        now = time.monotonic()
        trying = now - self._trying_since if self._trying_since is not None else 0.0
        return max(0.0, now - self.began - self._kept - trying)
