"""The way out of a sandbox with an allow or a deny list: an HTTP proxy of ours.

The sandbox has no network but loopback; this listens there, on a port handed over from it
(`relay_ports.py`), and runs in our process. It speaks CONNECT (https, git, anything through a
tunnel) and plain HTTP in absolute form, resolves names itself and connects only where the policy
lets it. What it refuses ends in 403 with the policy's words.
"""

import asyncio
import re
import socket
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from typing import NamedTuple

from agentcompass.components.contracts.requirements import AllowedHosts, DeniedHosts
from agentcompass.components.environments._docker.egress_rules import Refused, Resolver, Rules
from agentcompass.components.environments._docker.egress_upstream import (
    Stream,
    absolute,
    dialled,
    tunnelled,
    upstream,
)
from agentcompass.components.environments._docker.relay_server import BUFFER_BYTES, BoundedServer

CONNECTIONS = 128
"""Of one sandbox at once; pip, npm and git stay far below."""
_HEAD_SECONDS = 30.0
_CONNECT_SECONDS = 15.0
_RESOLVE_SECONDS = 15.0
_IDLE_SECONDS = 900.0
_HALF_CLOSED_SECONDS = 60.0
_TRIED_ADDRESSES = 4
_LOOKUPS = 4  # of one sandbox at once, so that none takes all threads

_REQUEST_LINE = re.compile(r"([A-Z]+) (\S+) HTTP/1\.[01]")
_ABSOLUTE = re.compile(r"http://([^/?#@]+)([/?][^#]*)?(?:#.*)?", re.IGNORECASE)
_AUTHORITY = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::([0-9]{1,5}))?")
_OWN_HEADERS = {"host", "connection", "keep-alive", "proxy-connection", "proxy-authorization"}


class EgressProxy:
    """Of one sandbox. Refuses everything until a policy is put in force."""

    def __init__(self, port: socket.socket, resolve: Resolver | None = None) -> None:
        full = _answer(503, "Busy", f"more than {CONNECTIONS} connections at once")
        self._server = BoundedServer(port, self._serve, connections=CONNECTIONS, full=full)
        self._resolve = resolve or _resolved
        self._lookups = asyncio.Semaphore(_LOOKUPS)
        self._rules: Rules | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.port}"

    async def start(self) -> None:
        await self._server.start()

    async def enforce(self, policy: AllowedHosts | DeniedHosts | None) -> None:
        """Connections made under another policy are cut when this returns. None: no way out."""
        self._rules = Rules(policy) if policy is not None else None
        await self._server.cut()

    async def close(self) -> None:
        self._rules = None
        await self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        rules = self._rules
        try:
            request = await _request(reader)
            if rules is None:
                raise Refused("the network policy of this phase lets nothing through this proxy")
            outside, head = await self._connected(rules, request)
        except _Failed as failure:
            writer.write(_answer(failure.status, failure.reason, str(failure)))
            return
        except Refused as refusal:
            writer.write(_answer(403, f"Refused: {refusal}", str(refusal)))
            return
        try:
            if head is None:
                writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            else:
                outside[1].write(head)
            await _exchange((reader, writer), outside, one_reply=head is not None)
        finally:
            outside[1].transport.abort()

    async def _connected(self, rules: Rules, request: "_Request") -> tuple[Stream, bytes | None]:
        """Directly, or through the proxy of this machine; and the head to send first.

        Raises _Failed and Refused.
        """
        try:
            proxy = upstream("http" if request.head else "https", request.host)
            known = proxy is None or not rules.trusts_name(request.host, request.port)
            addresses = await self._addresses(rules, request) if known else []
            if proxy is None:
                return await _dialled(addresses, request.port), request.head
            async with asyncio.timeout(_CONNECT_SECONDS):
                if request.head is None:
                    return await tunnelled(proxy, request.host, request.port), None
                head = absolute(proxy, request.host, request.port, request.head)
                return await dialled(proxy), head
        except OSError as error:
            reason = str(error) or "no answer in time"
            raise _Failed(502, "Bad Gateway", f"cannot connect: {reason}") from error

    async def _addresses(self, rules: Rules, request: "_Request") -> list[str]:
        try:
            async with self._lookups, asyncio.timeout(_RESOLVE_SECONDS):
                return await rules.addresses(request.host, request.port, self._resolve)
        except OSError as error:
            reason = str(error) or "no answer in time"
            raise _Failed(502, "Bad Gateway", f"cannot resolve {request.host}: {reason}") from error


class _Failed(Exception):
    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.status, self.reason = status, reason


class _Request(NamedTuple):
    host: str
    port: int
    head: bytes | None
    """To send on; None: a tunnel was asked for."""


async def _request(reader: asyncio.StreamReader) -> _Request:
    try:
        async with asyncio.timeout(_HEAD_SECONDS):
            raw = await reader.readuntil(b"\r\n\r\n")
    except asyncio.LimitOverrunError as error:
        raise _Failed(431, "Request Header Fields Too Large", "the head is too large") from error
    except TimeoutError as error:
        raise _Failed(408, "Request Timeout", "no complete request came") from error
    line, *headers = raw[:-4].decode("latin-1").split("\r\n")
    asked = _REQUEST_LINE.fullmatch(line)
    if asked is None:
        raise _Failed(400, "Bad Request", "this is an HTTP proxy; that is no HTTP request")
    method, target = asked.groups()
    if method == "CONNECT":
        return _Request(*_authority(target, None), head=None)
    absolute = _ABSOLUTE.fullmatch(target)
    if absolute is None:
        raise _Failed(400, "Bad Request", "a proxy takes CONNECT and http:// addresses only")
    host, port = _authority(absolute[1], 80)
    path = absolute[2] or "/"
    if any(mark in header for header in headers for mark in "\r\n"):  # a header within a header
        raise _Failed(400, "Bad Request", "the request's head is malformed")
    kept = [header for header in headers if _name(header) not in _OWN_HEADERS]
    head = [
        f"{method} {path if path.startswith('/') else '/' + path} HTTP/1.1",
        f"Host: {absolute[1]}",  # as the address says; a second opinion would go past the policy
        "Connection: close",
        *kept,
    ]
    return _Request(host, port, "\r\n".join([*head, "", ""]).encode("latin-1"))


def _name(header: str) -> str:
    return header.partition(":")[0].strip().lower()


def _authority(text: str, default_port: int | None) -> tuple[str, int]:
    found = _AUTHORITY.fullmatch(text)
    port = int(found[2]) if found and found[2] else default_port
    if found is None or port is None or not 0 < port < 65536:
        raise _Failed(400, "Bad Request", f"{text[:200]!r} is not a host with a port")
    return found[1].strip("[]"), port


async def _dialled(addresses: Sequence[str], port: int) -> Stream:
    problem = ""
    for address in addresses[:_TRIED_ADDRESSES]:
        try:
            async with asyncio.timeout(_CONNECT_SECONDS):
                return await asyncio.open_connection(address, port, limit=BUFFER_BYTES)
        except OSError as error:
            problem = f"{address}:{port}: {error.strerror or 'no answer in time'}"
    raise OSError(problem)


async def _exchange(inside: Stream, outside: Stream, *, one_reply: bool) -> None:
    """Both directions until both ended, one failed, or nothing moved for too long.

    The end of one direction is passed on and leaves the other open. `one_reply`: the end of what
    comes from outside is the end of all.
    """
    loop = asyncio.get_running_loop()
    moved = loop.time()

    async def pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        nonlocal moved
        while chunk := await source.read(BUFFER_BYTES):
            moved = loop.time()
            sink.write(chunk)
            await sink.drain()
            moved = loop.time()
        sink.write_eof()

    outward = loop.create_task(pump(inside[0], outside[1]))
    inward = loop.create_task(pump(outside[0], inside[1]))
    pumps = {outward, inward}
    try:
        while pumps:
            patience = _IDLE_SECONDS if len(pumps) == 2 else _HALF_CLOSED_SECONDS
            idle = loop.time() - moved
            if idle >= patience:
                return
            done, pumps = await asyncio.wait(
                pumps, timeout=patience - idle, return_when=asyncio.FIRST_COMPLETED
            )
            for pump_task in done:
                pump_task.result()  # a broken connection breaks the other
            if one_reply and inward.done():
                return
    finally:
        for pump_task in (outward, inward):
            pump_task.cancel()
        await asyncio.gather(outward, inward, return_exceptions=True)


async def _resolved(name: str) -> Sequence[str]:
    """In a thread of its own, a daemon: a look-up that hangs holds up nobody, nor our exit."""
    future: Future[list[str]] = Future()
    future.set_running_or_notify_cancel()

    def run() -> None:
        try:
            found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
        except Exception as error:  # handed to whoever waits, as executors do
            future.set_exception(error)
        else:
            future.set_result([str(entry[4][0]) for entry in found])

    threading.Thread(target=run, name="egress-name", daemon=True).start()
    try:
        return await asyncio.wrap_future(future)
    except UnicodeError as error:  # a label over 63 characters
        raise OSError(f"{name[:100]!r} is not a name") from error


def _answer(status: int, reason: str, message: str) -> bytes:
    """The reason stands in the first line as well: it is all that many programs show."""
    text = f"agentcompass: {message}\n".encode()
    line = re.sub(r"[^ -~]", "?", reason.replace("…", "..."))[:300]
    return (
        f"HTTP/1.1 {status} {line}\r\nContent-Type: text/plain; charset=utf-8\r\n"
        f"Content-Length: {len(text)}\r\nConnection: close\r\n\r\n"
    ).encode() + text
