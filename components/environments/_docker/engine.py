"""One Docker engine, asked from asyncio through the official SDK.

The SDK blocks, so each call has a thread of its own while it lasts: started at need, daemons, so
that neither their number nor an engine that hangs ever holds anything up. Nothing that lasts (the
output of a command, the guard of a sandbox, events) keeps one: those are sockets, see
`stream.py`.
"""

import asyncio
import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from agentcompass.components.environments._docker.errors import transient

if TYPE_CHECKING:
    from docker import DockerClient

CALL_SECONDS = 120.0
"""An engine that is silent for so long within one call hangs."""
_CONNECTIONS = 256
"""Kept open for reuse; more than this at once works too."""
_PAUSES_SECONDS = (0.2, 1.0, 3.0)

P = ParamSpec("P")
T = TypeVar("T")
Work = Callable[Concatenate["DockerClient", P], T]


class Engine:
    """Made once per provider; connects at its first call. Usable from several event loops."""

    def __init__(self, host: str | None = None) -> None:
        self._host = host
        self._client: DockerClient | None = None
        self._connecting = threading.Lock()

    async def call(self, work: Work[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """`work(client, *args, **kwargs)` in a thread, such as
        `await engine.call(lambda client: client.api.inspect_image(name))`.

        Raises what the SDK raises. A cancelled call goes on in its thread, result unseen: work
        that makes something must be able to unmake it by itself. An engine that hangs is given
        up after CALL_SECONDS of silence (requests' ReadTimeout).
        """
        return await asyncio.wrap_future(self.submit(work, *args, **kwargs))

    async def insist(self, work: Work[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """As `call`, tried again after transient failures: only for work that may be repeated."""
        return await self.call(lambda client: insistently(lambda: work(client, *args, **kwargs)))

    def submit(self, work: Work[P, T], *args: P.args, **kwargs: P.kwargs) -> "Future[T]":
        """The same without waiting, for those who must see the end of what they started."""
        future: Future[T] = Future()
        future.set_running_or_notify_cancel()  # a thread cannot be called back

        def run() -> None:
            try:
                result = work(self.client(), *args, **kwargs)
            except BaseException as error:  # handed to whoever waits, as executors do
                future.set_exception(error)
            else:
                future.set_result(result)

        threading.Thread(target=run, name="docker-call", daemon=True).start()
        return future

    def client(self) -> "DockerClient":
        """The SDK's client; blocks while it connects. For threads only."""
        with self._connecting:
            if self._client is None:
                self._client = _connected(self._host)
            return self._client

    def own_client(self) -> "DockerClient":
        """Another client, for a call whose connection may have to be broken. For threads only."""
        return _connected(self._host)


def insistently(work: Callable[[], T]) -> T:
    """In a thread: the work, tried again after transient failures."""
    for pause in _PAUSES_SECONDS:
        try:
            return work()
        except Exception as error:  # any of the SDK's and its transport's: judged here
            if not transient(error):
                raise
        time.sleep(pause)
    return work()


def _connected(host: str | None) -> "DockerClient":
    """`host`, else DOCKER_HOST with its companions, else the docker command's current context."""
    import docker

    options: dict[str, Any] = {"version": "auto", "timeout": CALL_SECONDS}
    if host is not None:
        options["base_url"] = host
    elif not os.environ.get("DOCKER_HOST"):
        options |= _of_context()
    if "base_url" in options:
        client = docker.DockerClient(max_pool_size=_CONNECTIONS, **options)
    else:
        client = docker.from_env(max_pool_size=_CONNECTIONS, **options)
    _tune(client)
    return client


def _tune(client: "DockerClient") -> None:
    """For a local socket: half the SDK's cost of a call.

    It keeps connections by whole address, path included, so that hardly one is used again and
    those of a call under way may be closed; and it looks for proxies in the environment.
    """
    from docker.transport import UnixHTTPAdapter

    class OnePool(UnixHTTPAdapter):  # type: ignore[misc,unused-ignore]
        def get_connection(self, url: Any, proxies: Any = None) -> Any:
            return super().get_connection("http+docker://localhost", proxies)

    scheme = "http+docker://"
    adapter = client.api.adapters.get(scheme)
    if type(adapter) is UnixHTTPAdapter:
        client.api.trust_env = False
        client.api.mount(
            scheme,
            OnePool(adapter.socket_path, adapter.timeout, max_pool_size=adapter.max_pool_size),
        )


def _of_context() -> dict[str, Any]:
    """Where the docker command's current context points; empty: nowhere special."""
    from docker.context import ContextAPI
    from docker.errors import DockerException

    try:
        name = os.environ.get("DOCKER_CONTEXT") or None
        context = ContextAPI.get_context(name) if name else ContextAPI.get_current_context()
    except (DockerException, OSError, ValueError, LookupError):
        return {}  # unreadable settings of another program are no reason to stop
    if context is None or context.name == "default" or not context.Host:
        return {}
    tls = context.TLSConfig
    return {"base_url": context.Host, **({"tls": tls} if tls else {})}
