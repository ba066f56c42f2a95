"""What the engine tells while it pulls or builds, read so that the work can be cut off.

The engine goes on for as long as the connection stands, and the SDK reads without a time-out. So
each of these calls has a client of its own, whose connection is broken to end the work: that is
how `docker pull` and `docker build` stop theirs.
"""

import asyncio
import socket
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from agentcompass.components.environments._docker.engine import Engine

if TYPE_CHECKING:
    from docker import APIClient

Event = dict[str, Any]
_LOOK_SECONDS = 0.5


async def followed(
    engine: Engine,
    start: Callable[["APIClient"], Iterable[Event]],
    see: Callable[[Event], None],
    *,
    silent_seconds: float,
    tick: Callable[[], None] = lambda: None,
) -> None:
    """Until the engine has said all. `see` is called in another thread, `tick` in this one, now
    and then.

    Raises what the SDK raises, APIError for a failure told in the stream, and TimeoutError when
    nothing is told for `silent_seconds`. A cancelled call ends the engine's work.
    """
    call = _Call(start, see)
    ended = asyncio.wrap_future(engine.submit(lambda _: call.run(engine.own_client())))
    try:
        while not ended.done():
            await asyncio.wait({ended}, timeout=_LOOK_SECONDS)
            tick()
            if not ended.done() and time.monotonic() - call.heard_at > silent_seconds:
                raise TimeoutError(f"nothing happened for {silent_seconds:.0f} seconds")
        ended.result()
    finally:
        if not ended.done():
            call.cut()
            ended.add_done_callback(_unheard)


def _unheard(ended: "asyncio.Future[None]") -> None:
    if not ended.cancelled():
        ended.exception()  # what a cut call says interests nobody


class _Call:
    def __init__(
        self, start: Callable[["APIClient"], Iterable[Event]], see: Callable[[Event], None]
    ) -> None:
        self._start, self._see = start, see
        self._connections: list[Any] = []
        self._cut = False
        self._guard = threading.Lock()
        self.heard_at = time.monotonic()

    def run(self, client: Any) -> None:
        """In a thread of its own."""
        from docker.errors import APIError

        try:
            self._watch_connections(client.api)
            for event in self._start(client.api):
                self.heard_at = time.monotonic()
                if self._cut:
                    return
                if text := _failure(event):
                    raise APIError(text, explanation=text)
                self._see(event)
        finally:
            client.close()

    def cut(self) -> None:
        with self._guard:
            self._cut = True
            for connection in self._connections:
                with suppress(OSError, AttributeError):  # closed, or not connected yet
                    connection.sock.shutdown(socket.SHUT_RDWR)

    def _watch_connections(self, api: Any) -> None:
        """Remember each connection as it is made; once cut off, make no more."""
        api.close()  # none that is open already
        adapter = api.get_adapter(api.base_url)
        pool_for = adapter.get_connection_with_tls_context

        def watched_pool(*args: Any, **kwargs: Any) -> Any:
            pool = pool_for(*args, **kwargs)
            make = pool._new_conn

            def connection() -> Any:
                made = make()
                with self._guard:
                    if self._cut:
                        raise ConnectionAbortedError("cut off")
                    self._connections.append(made)
                return made

            pool._new_conn = connection
            return pool

        adapter.get_connection_with_tls_context = watched_pool


def _failure(event: Event) -> str:
    """Failures in mid-stream come as events of an answer that began with status 200."""
    detail = event.get("errorDetail")
    told = detail.get("message") if isinstance(detail, dict) else None
    return str(told or event.get("error") or "")
