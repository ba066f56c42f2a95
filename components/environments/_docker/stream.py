"""A connection the engine handed over (an exec, the attached first process), read by the event
loop: no thread waits for a command.

Output comes in frames: a byte for the stream (1 or 2), three of zeros, four for the length.
"""

import asyncio
import contextlib
import os
import selectors
import socket
import ssl
import threading
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")
Sink = Callable[[bytes], None]

_HEADER_BYTES = 8
_BLOCK = 65536
_LOOK_SECONDS = 1.0
"""How long a reader goes on that was not woken when its connection was closed."""


class Taken:
    """A connection taken from the SDK, not read yet. Made in a thread."""

    def __init__(self, connection: Any) -> None:
        """`connection`: what the SDK returns for `socket=True` or `attach_socket`."""
        response = getattr(connection, "_response", None)
        plain: Any = getattr(connection, "_sock", None)
        self.early = b""
        self.half_closes = isinstance(connection, socket.SocketIO) and type(plain) is socket.socket
        """Its writing end can be closed alone, which tells a command that its input ended."""
        if self.half_closes:
            plain.setblocking(False)
            # What came along with the answer's headers waits in the buffer that read them, if it
            # is not gone: nothing of importance may be said before we have spoken.
            reader = getattr(getattr(getattr(response, "raw", None), "_fp", None), "fp", None)
            if reader is not None and not reader.closed:
                self.early = reader.peek()
            self.socket = socket.socket(fileno=os.dup(plain.fileno()))
            self.socket.setblocking(False)
            (connection if response is None else response).close()
        else:  # TLS, ssh: those are no sockets to the event loop
            self.socket = _bridged(connection, response)

    def close(self) -> None:
        self.socket.close()


class Stream(asyncio.Protocol):
    """`ended` is done when the engine closed the connection, or it broke."""

    def __init__(self, stdout: Sink, stderr: Sink) -> None:
        self._sinks = {1: stdout, 2: stderr}
        self._sink = stdout
        self._header = bytearray()
        self._left = 0
        self._transport: asyncio.Transport | None = None
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @classmethod
    async def over(cls, taken: Taken, stdout: Sink, stderr: Sink) -> "Stream":
        stream = cls(stdout, stderr)
        loop = asyncio.get_running_loop()
        try:
            await loop.create_connection(lambda: stream, sock=taken.socket)
        except BaseException:
            stream.close()
            taken.close()
            raise
        stream.data_received(taken.early)
        return stream

    def write(self, data: bytes) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)

    def write_eof(self) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write_eof()

    def close(self) -> None:
        """At once, whatever was not sent. Safe to call again."""
        if self._transport is not None:
            self._transport.abort()
        if not self.ended.done():
            self.ended.set_result(None)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.ended.done():
            self.ended.set_result(None)

    def data_received(self, data: bytes) -> None:
        at = 0
        while at < len(data):
            if self._left:
                piece = data[at : at + self._left]
                self._sink(piece)
                self._left -= len(piece)
                at += len(piece)
                continue
            wanted = _HEADER_BYTES - len(self._header)
            self._header += data[at : at + wanted]
            at += wanted
            if len(self._header) == _HEADER_BYTES:
                self._sink = self._sinks.get(self._header[0], self._sinks[1])
                self._left = int.from_bytes(self._header[4:], "big")
                self._header.clear()


def _bridged(connection: Any, response: Any) -> socket.socket:
    """The other end of two threads that copy, for connections that only threads can wait for."""
    ours, theirs = socket.socketpair()
    if hasattr(connection, "settimeout"):
        connection.settimeout(None)

    if isinstance(connection, ssl.SSLSocket):
        connection = _TakingTurns(connection)

    def receive() -> None:
        with contextlib.suppress(OSError, ValueError):  # closed meanwhile
            while block := connection.recv(_BLOCK):
                theirs.sendall(block)
        with contextlib.suppress(OSError):
            theirs.shutdown(socket.SHUT_WR)

    def send() -> None:
        with contextlib.suppress(OSError, ValueError):
            while block := theirs.recv(_BLOCK):
                connection.sendall(block)
        with contextlib.suppress(OSError):
            connection.close()
        if response is not None:
            response.close()
        theirs.close()

    for work in (receive, send):
        threading.Thread(target=work, name="docker-bridge", daemon=True).start()
    ours.setblocking(False)
    return ours


class _TakingTurns:
    """A TLS connection for one thread that reads and one that writes: OpenSSL's may not do both
    at once, so that neither holds it while it waits."""

    def __init__(self, connection: ssl.SSLSocket) -> None:
        self._connection, self._turn = connection, threading.Lock()
        connection.setblocking(False)

    def recv(self, most: int) -> bytes:
        return self._done(lambda: self._connection.recv(most))

    def sendall(self, data: bytes) -> None:
        left = memoryview(data)
        while left:
            sent = self._done(lambda rest=left: self._connection.send(rest))  # type: ignore[misc]
            left = left[sent:]

    def close(self) -> None:
        with self._turn:
            self._connection.close()

    def _done(self, work: Callable[[], T]) -> T:
        while True:
            try:
                with self._turn:
                    return work()
            except ssl.SSLWantReadError:
                wanted = selectors.EVENT_READ
            except ssl.SSLWantWriteError:
                wanted = selectors.EVENT_WRITE
            with selectors.DefaultSelector() as selector:
                selector.register(self._connection, wanted)
                selector.select(_LOOK_SECONDS)
