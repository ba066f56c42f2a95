"""Bare containers with a SandboxNetwork, and a world outside them, for the tests of the network."""

import asyncio
import contextlib
import functools
import http.server
import socket
import ssl
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest

from agentcompass.components.contracts.requirements import AllowedHosts, Network
from agentcompass.components.environments._docker.engine import Engine
from agentcompass.components.environments._docker.network import SandboxNetwork
from tests.components.environments.docker_engine import IMAGE

TEST_LABEL = "agentcompass.test.network"
SECONDS = 60.0
ONLY_ALLOWED = AllowedHosts(allow=("allowed.test",))


class Box:
    """A container under its network, entered in `baseline`."""

    def __init__(self, engine: Engine, container: str, network: SandboxNetwork) -> None:
        self.engine, self.container, self.network = engine, container, network

    async def sh(self, command: str, env: Mapping[str, str] | None = None) -> str:
        """Standard output and error, as root, with the phase's variables."""
        variables = {**self.network.variables(), **(env or {})}
        work = functools.partial(_execute, container=self.container, env=variables)
        return await self.engine.call(work, ["timeout", str(SECONDS), "bash", "-c", command])

    async def python(self, program: str, *arguments: object, env: Any = None) -> str:
        variables = {**self.network.variables(), **(env or {})}
        work = functools.partial(_execute, container=self.container, env=variables)
        argv = ["timeout", str(SECONDS), "python3", "-c", program, *map(str, arguments)]
        return await self.engine.call(work, argv)


@contextlib.asynccontextmanager
async def box(
    network: Network, names: Mapping[str, Sequence[str]] | None = None, **options: Any
) -> AsyncIterator[Box]:
    """`names`: what the lists' proxy resolves."""
    engine = Engine()
    container = await engine.call(create, network)
    labels = {TEST_LABEL: "1", "agentcompass.purpose": "run"}

    async def resolve(name: str) -> Sequence[str]:
        if name not in (names or {}):
            raise OSError("no such name")
        return (names or {})[name]

    sandbox = SandboxNetwork(engine, container, network, labels, resolve=resolve, **options)
    try:
        await sandbox.enter("baseline")
        yield Box(engine, container, sandbox)
    finally:
        await sandbox.close()
        await engine.call(remove, container)


def create(client: Any, network: Network) -> str:
    host_config = client.api.create_host_config(
        auto_remove=True, init=True, **SandboxNetwork.initial(network.baseline)
    )
    made = client.api.create_container(
        IMAGE, ["sleep", "600"], labels={TEST_LABEL: "1"}, host_config=host_config
    )
    client.api.start(made["Id"])
    return str(made["Id"])


def remove(client: Any, container: str) -> None:
    from docker.errors import APIError

    with contextlib.suppress(APIError):
        client.api.remove_container(container, force=True)


def labelled(client: Any, label: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = client.api.containers(all=True, filters={"label": label})
    return found


def _execute(client: Any, argv: list[str], *, container: str, env: Mapping[str, str]) -> str:
    made = client.api.exec_create(container, argv, environment=dict(env))
    return str(client.api.exec_start(made["Id"]).decode(errors="replace")).strip()


async def gateway() -> str:
    """The address under which containers on the bridge see this machine."""
    found = await Engine().call(lambda client: client.api.inspect_network("bridge"))
    settings = found["IPAM"]["Config"][0]
    return str(settings.get("Gateway") or next(ip_network(settings["Subnet"]).hosts()))


def outside_names(host: str) -> dict[str, list[str]]:
    """Names for the lists; `host` is this machine as the outside: far enough for them."""
    return {
        "allowed.test": [host],
        "other.test": [host],
        "denied.test": ["203.0.113.7"],
    }


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(30):
        while not condition():
            await asyncio.sleep(0.02)


def without_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    """The variables of whoever runs the tests do not count."""
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


class Site:
    """An HTTP server of this machine; says its name, or serves a folder."""

    def __init__(self, name: str, host: str = "127.0.0.1", folder: Path | None = None) -> None:
        site = self
        self.visits: list[str] = []

        class Handler(http.server.SimpleHTTPRequestHandler):
            def do_GET(self) -> None:
                site.visits.append(self.path)
                if folder is not None:
                    super().do_GET()
                    return
                self.send_response(200)
                self.end_headers()
                self.wfile.write(name.encode())

            def do_POST(self) -> None:
                self.rfile.read(int(self.headers.get("content-length") or 0))
                self.do_GET()

            def log_message(self, *arguments: object) -> None:
                pass

        handler = functools.partial(Handler, directory=str(folder)) if folder else Handler
        kind = type(
            "Server",
            (http.server.ThreadingHTTPServer,),
            {"address_family": socket.AF_INET6 if ":" in host else socket.AF_INET},
        )
        self._server = kind((host, 0), handler)
        self.port: int = self._server.server_address[1]

    def secured(self, context: ssl.SSLContext) -> "Site":
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        return self

    def __enter__(self) -> "Site":
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


@contextlib.contextmanager
def udp_ear() -> Iterator[socket.socket]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as ear:
        ear.bind(("0.0.0.0", 0))
        ear.settimeout(0.5)
        yield ear


def heard(ear: socket.socket) -> bool:
    try:
        ear.recv(100)
    except TimeoutError:
        return False
    return True


FETCH = """
import sys, urllib.request, urllib.error, ssl
for address in sys.argv[1:]:
    try:
        context = ssl._create_unverified_context()
        reply = urllib.request.urlopen(address, timeout=20, context=context)
        print(reply.status, reply.read().decode())
    except urllib.error.HTTPError as error:
        print(error.code, error.read().decode().strip())
    except OSError as error:
        print("failed:", error)
"""


async def fetched(sandbox: Box, *addresses: str) -> list[str]:
    """A line for each address: `200 body`, `403 refusal` or `failed: …`."""
    return (await sandbox.python(FETCH, *addresses)).splitlines()
