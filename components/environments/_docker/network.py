"""The network of one docker sandbox: its policy, phase by phase, and its way to the model.

`public` is the engine's default bridge, `none` no interface but loopback; a running container is
moved between the two. Under a list it has no interface either, and an HTTP proxy of ours is its
only way out. Proxy and model relay listen on loopback ports of the sandbox that were handed over
to this process (`relay_ports.py`); nothing stands in the sandbox that the agent could change.
"""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping
from contextlib import asynccontextmanager
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

from agentcompass.components.contracts.errors import AgentCompassError, Code
from agentcompass.components.contracts.requirements import (
    AllowedHosts,
    DeniedHosts,
    Network,
    NetworkPolicy,
    Requirements,
    SandboxPhase,
)
from agentcompass.components.environments._docker.egress_proxy import EgressProxy
from agentcompass.components.environments._docker.egress_rules import Resolver
from agentcompass.components.environments._docker.engine import Engine
from agentcompass.components.environments._docker.errors import explained
from agentcompass.components.environments._docker.model_relay import ModelRelay
from agentcompass.components.environments._docker.relay_ports import (
    open_ports,
    remove_stale_socket_dirs,
)

if TYPE_CHECKING:
    from docker import DockerClient

_BRIDGE = "bridge"
_PHASES: tuple[SandboxPhase, ...] = ("baseline", "run", "evaluation")
_PORTS_AT_ONCE = 3  # the proxy's, the model's, one to spare; each opening costs a container
_CLOSE_SECONDS = 10.0

T = TypeVar("T")


class SandboxNetwork:
    """Made with the container; `enter("baseline")` once it runs, before anything else runs in it.

    `labels` are the sandbox's own; `relay_image` names an image with python3 where none can be
    made from this interpreter; `resolve` looks up names for lists (tests).
    """

    def __init__(
        self,
        engine: Engine,
        container: str,
        network: Network,
        labels: Mapping[str, str],
        *,
        relay_image: str | None = None,
        resolve: Resolver | None = None,
    ) -> None:
        self._engine, self._container, self._network = engine, container, network
        self._labels, self._relay_image, self._resolve = labels, relay_image, resolve
        self._turn = asyncio.Lock()
        self._policy: NetworkPolicy | None = None  # None: not known to be in force
        self._proxy: EgressProxy | None = None
        self._relays: dict[str, ModelRelay] = {}
        self._spare: list[socket.socket] = []
        self._under_way: set[asyncio.Task[Any]] = set()
        self._closed = False

    @staticmethod
    def initial(policy: NetworkPolicy) -> dict[str, Any]:
        """For creating a container whose baseline this is. Any other policy can follow."""
        return {"network_mode": _BRIDGE if policy == "public" else "none"}

    async def enter(self, phase: SandboxPhase) -> None:
        """Returns when the policy is in force and what lived by another one is cut off.

        Raises environment.lost, environment.start (no way for lists) or environment.setup. Until
        it succeeds, nothing new is permitted.
        """
        policy = self._network.during(phase)
        async with self._turn:
            self._check_open()
            if policy == self._policy:
                return
            self._policy = None
            if self._proxy is not None:
                await self._proxy.enforce(None)
            async with self._failures("changing the network of the sandbox"):
                await self._to_its_end(
                    self._engine.insist(_move, self._container, policy == "public")
                )
                if isinstance(policy, AllowedHosts | DeniedHosts):
                    await (await self._opened_proxy()).enforce(policy)
            self._policy = policy

    async def model_address(self, base_url: str) -> str:
        """See the contract. Stays open in all phases; the same for the same endpoint."""
        async with self._turn:
            self._check_open()
            if base_url not in self._relays:
                try:
                    async with self._failures("opening the way to the model"):
                        port = await self._port()
                except AgentCompassError as error:
                    if error.code is Code.ENVIRONMENT_START and self._reaches(base_url):
                        return base_url
                    if error.code is Code.ENVIRONMENT_START:
                        raise AgentCompassError(Code.ENVIRONMENT_SETUP, str(error)) from error
                    raise
                self._relays[base_url] = _relay(port, base_url)
            relay = self._relays[base_url]
            await relay.start()
            return relay.address

    def variables(self) -> Mapping[str, str]:
        """For commands of the phase that was entered last; empty without a proxy."""
        if self._proxy is None or not isinstance(self._policy, AllowedHosts | DeniedHosts):
            return {}
        own = "localhost,127.0.0.1,::1"
        proxy = {"http_proxy": self._proxy.url, "https_proxy": self._proxy.url, "no_proxy": own}
        return {
            **proxy,
            **{name.upper(): value for name, value in proxy.items()},
            "NODE_USE_ENV_PROXY": "1",  # Node's own fetch; npm and others need no telling
        }

    async def close(self) -> None:
        """Bounded; may be called again, and while anything else is under way."""
        self._closed = True
        if self._under_way:
            await asyncio.wait(self._under_way, timeout=_CLOSE_SECONDS)
        self._close_spare()
        servers: list[EgressProxy | ModelRelay] = [*self._relays.values()]
        if self._proxy is not None:
            servers.append(self._proxy)
        await asyncio.gather(*(server.close() for server in servers))

    async def _opened_proxy(self) -> EgressProxy:
        if self._proxy is None:
            self._proxy = EgressProxy(await self._port(), self._resolve)
        await self._proxy.start()
        return self._proxy

    async def _port(self) -> socket.socket:
        """A port of the sandbox that nothing listens on yet."""
        if not self._spare:
            opening = self._engine.insist(
                open_ports,
                self._container,
                self._labels,
                count=_PORTS_AT_ONCE,
                image=self._relay_image,
            )
            ports = await self._to_its_end(opening, unwanted=_close_ports)
            self._spare.extend(ports)
            if self._closed:
                self._close_spare()
                self._check_open()
        return self._spare.pop()

    async def _to_its_end(
        self,
        work: Coroutine[Any, Any, T],
        unwanted: Callable[[asyncio.Task[T]], object] | None = None,
    ) -> T:
        """Threads cannot be cancelled: what a cancelled caller started is waited for before the
        next change and at the close, and its outcome given to `unwanted`."""
        if self._under_way:
            await asyncio.wait(self._under_way)
        self._check_open()
        task = asyncio.ensure_future(work)
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if unwanted is not None:
                task.add_done_callback(unwanted)
            raise

    def _close_spare(self) -> None:
        while self._spare:
            self._spare.pop().close()

    def _reaches(self, base_url: str) -> bool:
        """Without our help: the sandbox is always on the public network, where the endpoint is."""
        public = all(self._network.during(phase) == "public" for phase in _PHASES)
        return public and not _is_loopback(base_url)

    def _check_open(self) -> None:
        if self._closed:
            raise AgentCompassError(Code.ENVIRONMENT_LOST, "the sandbox is gone")

    @asynccontextmanager
    async def _failures(self, doing: str) -> AsyncIterator[None]:
        """The SDK's exceptions as ours."""
        import requests
        from docker.errors import APIError, DockerException, NotFound

        try:
            yield
        except (DockerException, requests.RequestException, OSError) as error:
            gone = isinstance(error, NotFound) and self._container in str(error)
            stopped = isinstance(error, APIError) and "is not running" in str(error)
            if gone or stopped:
                raise AgentCompassError(Code.ENVIRONMENT_LOST, "the sandbox is gone") from error
            raise explained(error, doing, Code.ENVIRONMENT_SETUP) from error


async def network_problems(
    engine: Engine, requirements: Iterable[Requirements], *, relay_image: str | None = None
) -> list[str]:
    """For the preflight: why the policies of these sandboxes cannot be enforced here.

    Tried out once per engine, and only where a list is asked for.
    """
    lists = any(
        isinstance(required.network.during(phase), AllowedHosts | DeniedHosts)
        for required in requirements
        for phase in _PHASES
    )
    if not lists or relay_image in _tried.setdefault(engine, set()):
        return []
    remove_stale_socket_dirs()
    try:
        for port in await engine.insist(open_ports, None, {}, image=relay_image):
            port.close()
    except Exception as error:  # any of the SDK's: it is explained, and refuses the run
        return [str(explained(error, "trying the network of sandboxes"))]
    _tried[engine].add(relay_image)
    return []


_tried: WeakKeyDictionary[Engine, set[str | None]] = WeakKeyDictionary()


def _move(client: "DockerClient", container: str, public: bool) -> None:
    """Onto the bridge and nothing else, or off every network. For threads; may be repeated."""
    wanted = {_BRIDGE} if public else set()
    _leave(client, container, _networks(client, container) - wanted)
    if public and _BRIDGE not in _networks(client, container):
        client.api.connect_container_to_network(container, _BRIDGE)
    if (found := _networks(client, container) - {"none"}) != wanted:
        raise AgentCompassError(
            Code.ENVIRONMENT_SETUP,
            f"the engine left the sandbox on the networks {sorted(found)}, not {sorted(wanted)}",
        )


def _leave(client: "DockerClient", container: str, networks: Iterable[str]) -> None:
    for name in sorted(networks):
        client.api.disconnect_container_from_network(container, name, force=True)


def _networks(client: "DockerClient", container: str) -> set[str]:
    state: dict[str, Any] = client.api.inspect_container(container)
    if not state["State"]["Running"]:
        raise AgentCompassError(Code.ENVIRONMENT_LOST, "the sandbox is gone")
    return set(state["NetworkSettings"]["Networks"])


def _relay(port: socket.socket, base_url: str) -> ModelRelay:
    try:
        return ModelRelay(port, base_url)
    except ValueError as error:
        port.close()
        raise AgentCompassError(
            Code.ENVIRONMENT_SETUP, f"the model's base URL {base_url!r}: {error}"
        ) from error


def _close_ports(opening: asyncio.Task[list[socket.socket]]) -> None:
    if not opening.cancelled() and opening.exception() is None:
        for port in opening.result():
            port.close()


def _is_loopback(base_url: str) -> bool:
    host = urlsplit(base_url).hostname or ""
    try:
        address = ip_address(host)
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
    return address.is_loopback or address.is_unspecified
