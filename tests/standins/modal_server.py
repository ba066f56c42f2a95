"""A stand-in of Modal's servers on loopback, for the real `modal` SDK. Its sandboxes really run
their commands, and whatever shall go wrong does: see `modal_faults`.

    with modal_standin(folder) as standin:      # in a thread; sets the SDK's variables
        standin.faults.fail("SandboxCreateV2", Status.UNAVAILABLE)

Commands run as root in namespaces of their own (`modal_box`); network policies are enforced for
addresses and for the names the stand-in is given (`modal_network`). What it cannot show: real
images and builds (every image is this machine's /usr), GPUs, limits of processors, real quotas
and their texts, start times, placement, DNS, that allowed names mean TLS at port 443 only, gVisor,
and how long the real worker keeps the streams of a command that left a child in the background.
"""

import asyncio
import contextlib
import os
import threading
import weakref
from collections.abc import Awaitable, Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from grpclib import GRPCError, Status
from grpclib.server import Server, Stream
from modal._utils.grpc_utils import custom_detail_codec
from modal_proto import api_pb2 as api
from modal_proto.api_grpc import ModalClientBase
from modal_proto.task_command_router_grpc import TaskCommandRouterBase

from tests.standins.modal_control import ModalControl
from tests.standins.modal_faults import ModalFaults
from tests.standins.modal_network import OutsideAddress
from tests.standins.modal_sandboxes import StandinSandbox
from tests.standins.modal_worker import ModalWorker

TOKEN_ID = "ak-standin"


class ModalStandin:
    def __init__(self, folder: Path, names: Mapping[str, str] | None = None) -> None:
        self.folder, self.names = folder, dict(names or {})
        self.faults = ModalFaults()
        self.sandboxes: dict[str, StandinSandbox] = {}
        self.apps: dict[str, str] = {}
        self.images: dict[str, api.Image] = {}
        self.calls: list[str] = []
        self.delete_seconds = 0.0
        """A sandbox counts as alive until it is deleted."""
        self.url = ""
        self.outside = OutsideAddress()

    async def start(self) -> None:
        await self.outside.add()
        halves = (
            _servicer(ModalClientBase, ModalControl(self), self),
            _servicer(TaskCommandRouterBase, ModalWorker(self), self),
        )
        self._server = _Server(list(halves), status_details_codec=custom_detail_codec)
        self.transports = self._server.transports
        await self._server.start("127.0.0.1", 0)
        assert self._server._server is not None
        self.url = f"http://127.0.0.1:{self._server._server.sockets[0].getsockname()[1]}"
        self._loop = asyncio.get_running_loop()

    async def stop(self) -> None:
        for sandbox in self.sandboxes.values():
            with contextlib.suppress(OSError):
                await sandbox.starting
            sandbox.end(api.GenericResult.GENERIC_STATUS_TERMINATED)
        for sandbox in self.sandboxes.values():
            with contextlib.suppress(AttributeError):  # it never got so far as to start
                for command in (sandbox.box.main, *sandbox.commands.values()):
                    await command.stop()
                await sandbox.box.network.remove()
            await asyncio.to_thread(sandbox.box.remove)
        self._server.close()
        await self.outside.remove()

    def living(self) -> list[StandinSandbox]:
        return [sandbox for sandbox in self.sandboxes.values() if sandbox.alive]

    def kill(self, sandbox_id: str) -> None:
        """From another thread: the sandbox goes away by itself."""
        end = self.sandboxes[sandbox_id].end
        self._loop.call_soon_threadsafe(end, api.GenericResult.GENERIC_STATUS_TERMINATED)

    def drop_connections(self) -> None:
        """From another thread: every client loses its connection."""

        def drop() -> None:
            for transport in list(self.transports):
                transport.abort()

        self._loop.call_soon_threadsafe(drop)

    async def delete(self, sandbox: StandinSandbox) -> None:
        if sandbox.alive and self.delete_seconds:
            await asyncio.sleep(self.delete_seconds)
        sandbox.end(api.GenericResult.GENERIC_STATUS_TERMINATED)

    async def until_ended(self, sandbox: StandinSandbox, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await sandbox.ended.wait()

    def variables(self, sources: Any) -> dict[str, str]:
        found: dict[str, str] = {}
        for source in sources:
            found.update(source.env.contents)
        return found


@contextlib.contextmanager
def modal_standin(folder: Path, names: Mapping[str, str] | None = None) -> Iterator[ModalStandin]:
    """Serves from a thread of its own; the SDK of this process finds it and nothing else."""
    standin = ModalStandin(folder, names)
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="modal-standin")
    thread.start()

    def run(work: Any) -> None:
        asyncio.run_coroutine_threadsafe(work, loop).result(60)

    before = dict(os.environ)
    try:
        run(standin.start())
        os.environ.update(variables_for(standin, folder))
        yield standin
    finally:
        os.environ.clear()
        os.environ.update(before)
        if standin.url:
            run(standin.stop())
        loop.call_soon_threadsafe(loop.stop)
        thread.join(60)


def variables_for(standin: ModalStandin, folder: Path) -> dict[str, str]:
    """What another process needs to find the stand-in."""
    return {
        "MODAL_SERVER_URL": standin.url,
        "MODAL_TOKEN_ID": TOKEN_ID,
        "MODAL_TOKEN_SECRET": "as-standin",
        "MODAL_CONFIG_PATH": str(folder / "no-modal.toml"),
    }


class _Server(Server):
    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.transports: weakref.WeakSet[Any] = weakref.WeakSet()

    def _protocol_factory(self) -> Any:
        protocol = super()._protocol_factory()
        made = protocol.connection_made

        def connection_made(transport: Any) -> None:
            self.transports.add(transport)
            made(transport)

        protocol.connection_made = connection_made
        return protocol


def _servicer(protocol: type[Any], half: object, standin: ModalStandin) -> Any:
    """An object with a handler for every call of the protocol, known to the stand-in or not."""

    def handler(name: str) -> Callable[[Any, Stream[Any, Any]], Awaitable[None]]:
        async def call(_: Any, stream: Stream[Any, Any]) -> None:
            standin.calls.append(name)
            metadata = stream.metadata or {}
            if metadata.get("x-modal-token-id", TOKEN_ID) != TOKEN_ID:
                raise GRPCError(Status.UNAUTHENTICATED, "Token ID not found")
            await standin.faults.before(name, stream)
            if streaming := getattr(half, f"stream_{name}", None):
                await streaming(stream)
                return
            method = getattr(half, name, None)
            if method is None:
                raise GRPCError(Status.UNIMPLEMENTED, f"{name} is not in the stand-in")
            reply = await method(await stream.recv_message())
            await standin.faults.after(name, stream)
            await stream.send_message(reply)

        return call

    methods = {name: handler(name) for name in protocol.__abstractmethods__}
    return type(f"{protocol.__name__}Standin", (protocol,), methods)()
