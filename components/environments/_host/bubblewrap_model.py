"""The model endpoint from inside a sandbox without a network, through a socket in the file system.

  agent ── 127.0.0.1:port ── forwarder (inside) ── unix socket ── we ── endpoint

Bytes pass as they are, TLS included: the endpoint's name stays in the address, and the
sandbox's /etc/hosts leads it to the forwarder.
"""

import asyncio
import contextlib
import os
import socket
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import SplitResult, urlsplit

from agentcompass.components.contracts.errors import AgentCompassError, Code

_LOWEST_FREE_PORT = 1024  # below it, nobody but root may listen
_MOVED_PORT = 20_000
_BLOCK = 64 * 1024

FORWARDER = """
import os, socket, sys, threading
listeners = [socket.create_server(("127.0.0.1", int(sys.argv[1])), backlog=128)]
if os.fork():
    os._exit(0)
os.setsid()
def pump(source, sink):
    try:
        while data := source.recv(65536):
            sink.sendall(data)
    except OSError:
        pass
    try:
        sink.shutdown(socket.SHUT_WR)
    except OSError:
        pass
def serve(client):
    with client, socket.socket(socket.AF_UNIX) as endpoint:
        try:
            endpoint.connect(sys.argv[2])
        except OSError:
            return
        up = threading.Thread(target=pump, args=(client, endpoint), daemon=True)
        up.start()
        pump(endpoint, client)
        up.join()
while True:
    client, _ = listeners[0].accept()
    threading.Thread(target=serve, args=(client,), daemon=True).start()
"""
"""A program: listen on the port (argument 1), pass on to the unix socket (argument 2). It goes
to the background once it listens."""


@dataclass(frozen=True)
class Endpoint:
    """Where the endpoint is for us, and where inside."""

    host: str
    port: int
    inner_port: int
    address: str
    """The base URL inside."""

    @property
    def named(self) -> bool:
        """By a name that /etc/hosts must lead to the forwarder."""
        return self.host != "localhost" and not _is_number(self.host)

    @property
    def socket_name(self) -> str:
        return f"{self.inner_port}.sock"


def endpoint_of(base_url: str) -> Endpoint:
    """Raises AgentCompassError(environment.setup) for an address that cannot be led inside."""
    parts = urlsplit(base_url)
    host = parts.hostname or ""
    port = parts.port or {"http": 80, "https": 443}.get(parts.scheme, 0)
    by_number = _is_number(host) and not host.startswith("127.")
    if not host or not port or (by_number and parts.scheme == "https"):
        raise AgentCompassError(
            Code.ENVIRONMENT_SETUP,
            f"the model endpoint {base_url} cannot be reached in a sandbox without a network: "
            "give it by a name, or network: public",
        )
    inner = port if port >= _LOWEST_FREE_PORT else port + _MOVED_PORT
    shown = "127.0.0.1" if by_number or ":" in host else host
    address = SplitResult(parts.scheme, f"{_login(parts)}{shown}:{inner}", *parts[2:]).geturl()
    return Endpoint(host, port, inner, base_url if port == inner and shown == host else address)


def _login(parts: SplitResult) -> str:
    return f"{parts.netloc.rpartition('@')[0]}@" if "@" in parts.netloc else ""


@dataclass
class ModelSockets:
    """Our side: one unix socket for each endpoint, open until `close`."""

    folder: Path
    _servers: dict[Endpoint, asyncio.Server] = field(default_factory=dict)
    _connections: set[asyncio.Task[None]] = field(default_factory=set)

    @property
    def endpoints(self) -> tuple[Endpoint, ...]:
        return tuple(self._servers)

    async def offer(self, endpoint: Endpoint) -> None:
        """Raises AgentCompassError(environment.setup)."""
        if endpoint in self._servers:
            return
        if any(other.inner_port == endpoint.inner_port for other in self._servers):
            raise AgentCompassError(
                Code.ENVIRONMENT_SETUP,
                f"two model endpoints with port {endpoint.port} cannot both be led into one "
                "sandbox without a network",
            )

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            self._connections.add(task)
            task.add_done_callback(self._connections.discard)
            await _pass_on(endpoint, reader, writer)

        listener = _listener(self.folder, endpoint.socket_name)
        self._servers[endpoint] = await asyncio.start_unix_server(serve, sock=listener)

    async def close(self) -> None:
        for server in self._servers.values():
            server.close()
        for task in self._connections:
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)
        self._servers.clear()


def _listener(folder: Path, name: str) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX)
    descriptor = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        listener.bind(f"/proc/self/fd/{descriptor}/{name}")  # however long the folder's path is
    except BaseException:
        listener.close()
        raise
    finally:
        os.close(descriptor)
    (folder / name).chmod(0o666)  # the folder is ours alone; inside only this sandbox sees it
    return listener


async def _pass_on(
    endpoint: Endpoint, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    try:
        from_model, to_model = await asyncio.open_connection(endpoint.host, endpoint.port)
    except OSError:
        writer.close()  # the agent's client sees what it would see of a dead endpoint
        return
    up = asyncio.create_task(_pump(reader, to_model))
    try:
        await _pump(from_model, writer)
    finally:
        up.cancel()
        for end in (writer, to_model):
            end.close()


async def _pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await source.read(_BLOCK):
            sink.write(data)
            await sink.drain()
        if sink.can_write_eof():
            sink.write_eof()


def hosts_file(endpoints: tuple[Endpoint, ...], machine: str) -> str:
    """What /etc/hosts says inside: the machine's own, unless endpoints are led in."""
    names = " ".join(endpoint.host for endpoint in endpoints if endpoint.named)
    return f"127.0.0.1 localhost {names}\n::1 localhost\n{machine}"


def _is_number(host: str) -> bool:
    return ":" in host or host.replace(".", "").isdigit()


def rewrite(path: Path, text: str) -> None:
    """In place: a file that is mounted cannot be replaced."""
    descriptor = os.open(path, os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
