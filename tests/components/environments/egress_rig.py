"""The proxy of sandboxes with lists on real sockets, what it reaches, and names of our own."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Sequence

from agentcompass.components.contracts.requirements import AllowedHosts, DeniedHosts
from agentcompass.components.environments._docker.egress_proxy import EgressProxy

NAMES = {
    "pypi.org": ["151.101.0.223"],
    "www.pypi.org": ["151.101.0.223"],
    "github.com": ["140.82.121.3"],
    "hidden.example.com": ["140.82.121.3"],
    "inner.example.com": ["10.1.2.3"],
    "rebound.example.com": ["127.0.0.1"],
    "metadata.example.com": ["169.254.169.254"],
    "six.example.com": ["::ffff:10.1.2.3"],
    "both.example.com": ["10.1.2.3", "93.184.216.34"],
    "allowed.localhost": ["127.0.0.1"],
    "localhost": ["127.0.0.1", "::1"],
}


async def resolve(name: str) -> Sequence[str]:
    if name not in NAMES:
        raise OSError("no such name")
    return NAMES[name]


def allow(*hosts: str) -> AllowedHosts:
    return AllowedHosts(allow=hosts)


def deny(*hosts: str) -> DeniedHosts:
    return DeniedHosts(deny=hosts)


@contextlib.asynccontextmanager
async def proxy_for(policy: AllowedHosts | DeniedHosts | None) -> AsyncIterator[EgressProxy]:
    port = socket.socket()
    port.bind(("127.0.0.1", 0))
    proxy = EgressProxy(port, resolve)
    await proxy.start()
    await proxy.enforce(policy)
    try:
        yield proxy
    finally:
        await proxy.close()


class Outside:
    """A server that keeps what it received and answers what it is told to."""

    def __init__(self, reply: bytes = b"") -> None:
        self.reply, self.received, self.ended = reply, b"", asyncio.Event()
        self.connections = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            if self.reply:
                self.received += await reader.readuntil(b"\r\n\r\n")
                writer.write(self.reply)
            else:
                while chunk := await reader.read(65536):
                    self.received += chunk
                writer.write(b"received %d" % len(self.received))
            await writer.drain()
        except (OSError, EOFError):
            pass
        finally:
            self.ended.set()
            writer.close()


@contextlib.asynccontextmanager
async def listening(outside: Outside) -> AsyncIterator[int]:
    server = await asyncio.start_server(outside.serve, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def dial(proxy: EgressProxy, first: bytes) -> Stream:
    reader, writer = await asyncio.open_connection("127.0.0.1", int(proxy.url.rpartition(":")[2]))
    writer.write(first)
    return reader, writer


async def answer(proxy: EgressProxy, first: bytes) -> bytes:
    reader, writer = await dial(proxy, first)
    async with asyncio.timeout(20):
        reply = await reader.read()
    writer.close()
    return reply


async def tunnel(proxy: EgressProxy, target: str) -> Stream:
    reader, writer = await dial(proxy, f"CONNECT {target} HTTP/1.1\r\n\r\n".encode())
    assert b" 200 " in await reader.readuntil(b"\r\n\r\n")
    return reader, writer
