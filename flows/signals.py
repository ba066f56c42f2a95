"""SIGINT and SIGTERM mean: end the attempts, keep what is finished, tear down, say so."""

import asyncio
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

WATCHED = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def stopping_on_signals(stop: asyncio.Event) -> Iterator[None]:
    """Within this block the signals set `stop`; repeated ones change nothing.

    Each sub-flow installs Prefect's own SIGTERM handler, which would raise in the middle of the
    event loop; so the sub-flows that matter arm this one after they have started.
    """
    loop = asyncio.get_running_loop()

    def wish(number: int, frame: FrameType | None) -> None:
        loop.call_soon_threadsafe(stop.set)

    try:
        previous = {number: signal.signal(number, wish) for number in WATCHED}
    except ValueError:  # not in the main thread: whoever is there has the signals
        yield
        return
    try:
        yield
    finally:
        for number, handler in previous.items():
            if signal.getsignal(number) is wish:
                signal.signal(number, handler)
