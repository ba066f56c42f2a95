"""Loopback ports inside a sandbox that our own process serves.

A container of a few milliseconds enters the sandbox's network, binds the ports and passes the
sockets to us through a unix socket in a private directory (`relay.py`). Measured against a
container that stays and forwards: 0.07 s to open, one hop less, and nothing that could outlive us
or be tampered with: when we die, the kernel closes the ports.
"""

import fcntl
import inspect
import os
import platform
import select
import shutil
import socket
import stat
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentcompass.components.contracts.errors import AgentCompassError, Code
from agentcompass.components.environments._docker import relay as _relay
from agentcompass.components.environments._docker.relay_image import RelayImage, relay_image
from agentcompass.components.environments._docker.stream import Taken

if TYPE_CHECKING:
    from docker import DockerClient

_OWN_LABELS = {"agentcompass.purpose": "relay", "agentcompass.kept": "false"}
_PREFIX = "agentcompass-door-"
_YOUNG_SECONDS = 60.0
_OPEN_SECONDS = 60.0
"""From the container's start until the ports are here; an engine under load takes seconds."""
_REMOVE_SECONDS = 10.0
_TOLD_BYTES = 64 * 1024


def open_ports(
    client: "DockerClient",
    container: str | None,
    labels: Mapping[str, str],
    *,
    count: int = 1,
    image: str | None = None,
) -> list[socket.socket]:
    """Bound, not yet listening sockets on 127.0.0.1 of a running container's network; None: of
    none at all, to try it out. For threads. Nothing but the sockets is left when it returns.

    Raises environment.start if there is no way, environment.lost if the container is gone, and
    what the SDK raises.
    """
    from docker.errors import ImageNotFound

    if platform.system() != "Linux":  # the engine's Linux is another machine then
        raise _no_way("here it is in a virtual machine")
    for last in (False, True):
        chosen = relay_image(client, image)
        try:
            with _door() as (folder, listener):
                return _opened(client, container, labels, count, chosen, folder, listener)
        except ImageNotFound as error:
            if image is not None:
                raise AgentCompassError(
                    Code.ENVIRONMENT_START, f"relay_image {image} is not in the engine; pull it"
                ) from error
            if last:  # pruned between making and using it, twice
                raise
    raise AssertionError("unreachable")


def stale_socket_dirs() -> tuple[Path, ...]:
    """Directories of ours whose process died while it opened ports."""
    stale = []
    for folder in sorted(Path(tempfile.gettempdir()).glob(f"{_PREFIX}*")):
        with suppress(OSError):  # alive (locked), or gone meanwhile
            seen = folder.lstat()
            if not stat.S_ISDIR(seen.st_mode) or seen.st_uid != os.getuid():
                continue
            if time.time() - seen.st_mtime < _YOUNG_SECONDS:
                continue  # made just now, and not locked yet
            with _locked(folder):
                stale.append(folder)
    return tuple(stale)


def remove_stale_socket_dirs() -> None:
    for folder in stale_socket_dirs():
        shutil.rmtree(folder, ignore_errors=True)


def _opened(
    client: "DockerClient",
    container: str | None,
    labels: Mapping[str, str],
    count: int,
    image: RelayImage,
    folder: Path,
    listener: socket.socket,
) -> list[socket.socket]:
    relay = _created(client, container, labels, count, image, folder)
    try:
        output = {"stdout": 1, "stderr": 1, "stream": 1}
        told = Taken(client.api.attach_socket(relay, params=output))
        try:
            _start(client, relay, container)
            connection = _entered(listener, told)
        finally:
            told.close()
        with connection:
            return _received(connection, count)
    finally:
        _remove(client, relay)


def _created(
    client: "DockerClient",
    container: str | None,
    labels: Mapping[str, str],
    count: int,
    image: RelayImage,
    folder: Path,
) -> str:
    from docker.errors import APIError, ImageNotFound
    from docker.types import Mount

    host_config = client.api.create_host_config(
        network_mode=f"container:{container}" if container else "none",
        auto_remove=True,  # if we are killed; else it is removed below
        read_only=True,
        cap_drop=["ALL"],
        security_opt=["no-new-privileges", "label=disable"],  # SELinux would refuse the socket
        mem_limit="64m",
        pids_limit=64,
        mounts=[Mount("/door", str(folder), type="bind", read_only=True)],
    )
    try:
        made: dict[str, Any] = client.api.create_container(
            image.name,
            ["-I", "-S", "-X", "utf8", "-c", inspect.getsource(_relay), "/door/door", str(count)],
            entrypoint=list(image.entrypoint),
            user="65534:65534",
            labels={**labels, **_OWN_LABELS},
            host_config=host_config,
        )
    except ImageNotFound:
        raise
    except APIError as error:
        if "bind source path does not exist" in str(error):
            raise _no_way("the engine does not see the files of this machine") from error
        _raise_if_gone(client, container, error)
        raise
    return str(made["Id"])


def _start(client: "DockerClient", relay: str, container: str | None) -> None:
    from docker.errors import APIError

    try:
        client.api.start(relay)
    except APIError as error:
        _raise_if_gone(client, container, error)
        if error.status_code is not None and error.status_code < 500:  # it will not run there
            raise _no_way(f"the relay does not start: {error.explanation}") from error
        raise


def _entered(listener: socket.socket, told: Taken) -> socket.socket:
    """The relay's connection. It says nothing if all is well, and its end is a failure."""
    deadline = time.monotonic() + _OPEN_SECONDS
    output = told.early
    while (remaining := deadline - time.monotonic()) > 0:
        ready, _, _ = select.select([listener, told.socket], [], [], remaining)
        if listener in ready:
            return listener.accept()[0]
        if ready:
            chunk = told.socket.recv(4096)
            output = (output + chunk)[-_TOLD_BYTES:]
            if not chunk:
                break
    lines = output.decode(errors="replace").strip().splitlines()
    raise _no_way(f"the relay did not come through: {lines[-1] if lines else 'no word from it'}")


def _received(connection: socket.socket, count: int) -> list[socket.socket]:
    connection.settimeout(_OPEN_SECONDS)
    _, numbers, _, _ = socket.recv_fds(connection, 16, count)
    ports = [socket.socket(fileno=number) for number in numbers]
    for port in ports:
        port.set_inheritable(False)  # a program we start must not keep them open
    if len(ports) != count or any(port.getsockname()[0] != "127.0.0.1" for port in ports):
        for port in ports:
            port.close()
        raise _no_way("the relay handed over no ports")
    return ports


def _remove(client: "DockerClient", relay: str) -> None:
    """Until it is not listed any more; by itself it is going already."""
    from docker.errors import APIError, NotFound

    deadline = time.monotonic() + _REMOVE_SECONDS
    while time.monotonic() < deadline:
        try:
            client.api.remove_container(relay, force=True)
        except NotFound:
            return
        except APIError:  # 409: its own removal is under way
            time.sleep(0.02)
        else:
            return


def _raise_if_gone(client: "DockerClient", container: str | None, cause: Exception) -> None:
    from docker.errors import NotFound

    if container is None:
        return
    try:
        running = client.api.inspect_container(container)["State"]["Running"]
    except NotFound:
        running = False
    if not running:
        raise AgentCompassError(Code.ENVIRONMENT_LOST, "the sandbox is gone") from cause


@contextmanager
def _door() -> Iterator[tuple[Path, socket.socket]]:
    """A directory to mount, with a listening unix socket `door` in it.

    The outer directory is closed to other users of this machine; the socket itself is open, for
    the relay is nobody.
    """
    outer = Path(tempfile.mkdtemp(prefix=_PREFIX))
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with _locked(outer):
            folder = outer / "s"
            folder.mkdir()
            folder.chmod(0o711)
            descriptor = os.open(folder, os.O_PATH | os.O_DIRECTORY)
            try:  # by descriptor: a unix socket's path must be shorter than 108 bytes
                listener.bind(f"/proc/self/fd/{descriptor}/door")
            finally:
                os.close(descriptor)
            (folder / "door").chmod(0o666)
            listener.listen(1)
            yield folder, listener
    finally:
        listener.close()
        shutil.rmtree(outer, ignore_errors=True)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Raises BlockingIOError while a living process has it."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(descriptor)


def _no_way(reason: str) -> AgentCompassError:
    return AgentCompassError(
        Code.ENVIRONMENT_START,
        "allow and deny lists and the way to a model on this machine need a Docker engine that "
        f"runs on this machine ({reason}); use a local engine, or network public or none",
    )
