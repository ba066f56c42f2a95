"""What is told of an endpoint that keeps failing: all in the run's log, few on a console."""

import logging
import time

from agentcompass.components.contracts.attempt import AttemptKey

log = logging.getLogger(__name__)

FIRST_LULL, LONGEST_LULL = 10.0, 3_600.0
"""Seconds without another INFO line. Each lull is three times as long as the one before, so that
neither a night without an endpoint nor one that fails now and then fills a console."""


class Trouble:
    """Shared by all calls of a run to one endpoint."""

    def __init__(self, gives_up_after: float) -> None:
        """`gives_up_after`: seconds of one call."""
        self._gives_up_after = gives_up_after
        self._waiting: set[object] = set()
        self._lull, self._quiet_until = FIRST_LULL, 0.0
        self._told = False

    def met(self, call: object, key: AttemptKey, line: str, delay: float) -> None:
        """A call failed, and is made again after `delay` seconds."""
        log.debug("%s: %s; asking again in %.1f s", key, line, delay)
        self._waiting.add(call)
        now = time.monotonic()
        if now < self._quiet_until:
            return
        calls = len(self._waiting)
        log.info(
            "%s; %d call%s for it, giving up after %.0f s each (every failure is in the run's log)",
            *(line, calls, "s wait" if calls > 1 else " waits", self._gives_up_after),
        )
        self._told = True
        self._quiet_until = now + self._lull
        self._lull = min(self._lull * 3, LONGEST_LULL)

    def over(self, call: object, *, answered: bool) -> None:
        """The call ended, however it did."""
        waited = call in self._waiting
        self._waiting.discard(call)
        if answered and waited and self._told and not self._waiting:
            self._told = False
            log.info("the endpoint answers again: no call waits for it any more")
