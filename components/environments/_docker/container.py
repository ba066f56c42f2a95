"""A container from nothing to running, and back: all or nothing."""

import asyncio
import contextlib
import functools
import logging
import threading
import time
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from agentcompass.components.contracts.errors import AgentCompassError, Code
from agentcompass.components.contracts.waiting import to_its_end
from agentcompass.components.environments._docker.engine import Engine, insistently
from agentcompass.components.environments._docker.errors import explained, transient
from agentcompass.components.environments._docker.stream import Stream, Taken

if TYPE_CHECKING:
    from docker import DockerClient

_log = logging.getLogger(__name__)

_READY_SECONDS = 30.0
"""What the first process may take to make the working directory."""
_SAID_BYTES = 1_000
_TRIES = 3
_PAUSE_SECONDS = 0.5
_UNMAKING_SECONDS = 20.0
"""Waited, when cancelled, for a call under way; the thread cleans up whenever it ends."""
_GONE_SECONDS = 5.0
"""Waited for the end of a removal that is under way already."""


@dataclass(frozen=True)
class Plan:
    """What to create: arguments of the SDK's `create_container` and `create_host_config`."""

    name: str
    image: str
    settings: Mapping[str, Any]
    host_settings: Mapping[str, Any]


@dataclass(frozen=True)
class Made:
    id: str
    guard: Taken
    """The connection to the first process; the container ends when it closes."""


async def make(engine: Engine, plan: Plan) -> Made:
    """Create and start. Raises what the SDK raises. Failed or cancelled, nothing is left: the
    thread that makes the container is the one that removes it."""
    abandoned = threading.Event()
    future = engine.submit(_made, plan, abandoned)
    try:
        return await asyncio.wrap_future(future)
    except asyncio.CancelledError:
        abandoned.set()
        await to_its_end(_unmade(engine, future))
        raise


async def guarded(engine: Engine, made: Made, heard: "FirstWords") -> Stream:
    """The connection that keeps the container alive: without it, it ends by itself."""
    try:
        return await Stream.over(made.guard, heard.add, heard.add)
    except BaseException:
        await to_its_end(_removed(engine, made))
        raise


class FirstWords:
    """What the first process says: `ready`, or why not."""

    def __init__(self) -> None:
        self._said = bytearray()
        self._ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def add(self, data: bytes) -> None:
        self._said += data[: _SAID_BYTES - len(self._said)]
        if self._said.endswith(b"ready\n") and not self._ready.done():
            self._ready.set_result(None)

    async def ready(self, guard: Stream, doing: str) -> None:
        """Once it has made the working directory and waits. Raises environment.start."""
        ends = [self._ready, guard.ended]
        await asyncio.wait(ends, timeout=_READY_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        if not self._ready.done():
            reason = self._said.decode("utf-8", "replace") or "its first process does not start"
            raise AgentCompassError(Code.ENVIRONMENT_START, f"{doing}: {' '.join(reason.split())}")


async def _unmade(engine: Engine, future: "Future[Made]") -> None:
    making = asyncio.wrap_future(future)
    await asyncio.wait([making], timeout=_UNMAKING_SECONDS)
    if making.done() and making.exception() is None:  # it was too late to tell the thread
        making.result().guard.close()
        await _removed(engine, making.result())


async def _removed(engine: Engine, made: Made) -> None:
    """In bounded time; a failure is no news: something else rises."""
    removing = asyncio.ensure_future(engine.insist(remove, made.id))
    await asyncio.wait([removing], timeout=_UNMAKING_SECONDS)
    if removing.done() and (error := removing.exception()) is not None:
        _log.warning("%s", explained(error, f"removing container {made.id[:12]}"))


def remove(client: "DockerClient", container: str) -> None:
    """With what runs inside and its anonymous volumes; returns once it is gone. By id or name."""
    from docker.errors import APIError, NotFound

    patience = time.monotonic() + _GONE_SECONDS
    while True:
        try:
            client.api.remove_container(container, force=True, v=True)
            return
        except NotFound:
            return
        except APIError as error:
            # 409: being removed by the engine itself (auto_remove), or by somebody else.
            under_way = error.status_code == 409 or "removal of container" in str(error)
            if not under_way or time.monotonic() > patience:
                raise
            time.sleep(0.05)


def _made(client: "DockerClient", plan: Plan, abandoned: threading.Event) -> Made:
    for attempt in range(1, _TRIES + 1):
        try:
            return _made_once(client, plan, abandoned)
        except Exception as error:  # any of the SDK's and its transport's: judged here
            # By name: an answer that got lost may have told of a container. Insistently: what
            # broke this connection has often broken the next one, too.
            with contextlib.suppress(Exception):  # the reason that rises is the first one
                insistently(functools.partial(remove, client, plan.name))
            if attempt == _TRIES or abandoned.is_set() or not transient(error):
                raise
            time.sleep(_PAUSE_SECONDS * attempt)
    raise AssertionError("unreachable")


def _made_once(client: "DockerClient", plan: Plan, abandoned: threading.Event) -> Made:
    api = client.api
    container = api.create_container(
        plan.image,
        name=plan.name,
        host_config=api.create_host_config(**plan.host_settings),
        **plan.settings,
    )["Id"]
    parameters = {"stdin": 1, "stdout": 1, "stderr": 1, "stream": 1}
    guard = Taken(api.attach_socket(container, params=parameters))
    try:
        if not abandoned.is_set():
            api.start(container)
        if abandoned.is_set():
            raise InterruptedError("nobody waits for this container any more")
    except BaseException:
        guard.close()
        raise
    return Made(container, guard)
