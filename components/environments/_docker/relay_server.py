"""A bounded asyncio server on a socket that was handed over from a sandbox.

Whatever a program inside does (floods, silence, garbage) costs this process a fixed number of
connections with fixed buffers, and nothing else.
"""

import asyncio
import logging
import resource
import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress

_log = logging.getLogger(__name__)

BUFFER_BYTES = 64 * 1024
_CLOSE_SECONDS = 5.0
_LINGER_SECONDS = 1.0
_BACKLOG = 128

Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]

_open_everywhere = 0  # connections of all servers of this process


class BoundedServer:
    """`handle` serves one connection; it is cancelled, and the connection cut, at the close."""

    def __init__(self, port: socket.socket, handle: Handler, *, connections: int, full: bytes):
        """`full` is the answer to a connection over the limit."""
        self.port: int = port.getsockname()[1]
        self._socket, self._handle = port, handle
        self._connections, self._full = connections, full
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        """May be called again."""
        if self._server is not None:
            return
        self._socket.setblocking(False)
        self._server = await asyncio.start_server(
            self._connected, sock=self._socket, limit=BUFFER_BYTES, backlog=_BACKLOG
        )

    async def cut(self) -> None:
        """End every connection at once; new ones are still taken."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=_CLOSE_SECONDS)

    async def close(self) -> None:
        server, self._server = self._server, None
        if server is not None:
            server.close()
        self._socket.close()
        await self.cut()

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._tasks) >= self._connections or _open_everywhere >= _budget():
            writer.write(self._full)
            writer.close()
            return
        # Kept by hand: what asyncio starts by itself cannot be ended at a change of phase.
        task = asyncio.get_running_loop().create_task(self._serve(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        global _open_everywhere
        _open_everywhere += 1
        try:
            await self._handle(reader, writer)
            await _ended(reader, writer)
        except (OSError, EOFError, TimeoutError):
            pass  # the program inside went away; nothing is owed to it
        except Exception as error:  # a fault here must show up, and must not end the server
            _log.warning("a connection from a sandbox could not be served: %r", error)
        finally:
            _open_everywhere -= 1
            writer.transport.abort()


async def _ended(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Close so that the last words arrive: with input unread, they would be lost in a reset."""
    async with asyncio.timeout(_CLOSE_SECONDS):
        await writer.drain()
        writer.write_eof()
    with suppress(TimeoutError):
        async with asyncio.timeout(_LINGER_SECONDS):
            while await reader.read(BUFFER_BYTES):
                pass
    writer.close()
    async with asyncio.timeout(_CLOSE_SECONDS):
        await writer.wait_closed()


def _budget() -> int:
    """Connections at once of all sandboxes: each may take two descriptors of this process."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 1 << 20 if soft == resource.RLIM_INFINITY else max(64, soft // 4)
