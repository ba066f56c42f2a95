"""A sandbox without a container engine: namespaces of its own (pid, ipc, uts, mount, network)
made by bubblewrap, rooted in a directory of its own, with this machine's /usr read-only.

Commands join it with nsenter, so that processes in the background, files and the network last
between them. The machine's own addresses play the outside world: a wire and routes reach them,
a policy is a set of routes. Needs root, bubblewrap, util-linux and iproute2.
"""

import asyncio
import contextlib
import ipaddress
import json
import os
import secrets
import shutil
import signal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.standins.memory_limit import MemoryLimit

_VARIABLES = {
    "PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
    "HOME": "/root",
    "DAYTONA_SANDBOX": "1",
}


needs_sandboxes = pytest.mark.skipif(
    "CI" not in os.environ
    and (
        sys.platform != "linux"
        or os.geteuid() != 0
        or not all(shutil.which(tool) for tool in ("bwrap", "nsenter", "setpriv", "ip"))
    ),
    reason="sandboxes of the stand-in need root, bubblewrap, util-linux and iproute2 on Linux",
)
"""For tests; in CI they run whatever is missing, and fail."""


@dataclass
class Ended:
    exit_code: int
    output: bytes
    """stdout and stderr together, in order."""
    timed_out: bool = False


class DaytonaBox:
    def __init__(
        self, root: Path, workdir: str, user: str, names: Mapping[str, str], memory_mb: int = 0
    ) -> None:
        """`names` are the hosts that resolve inside, with their addresses."""
        self._memory_mb = memory_mb
        self._memory: MemoryLimit | None = None
        self.root, self.workdir = root, workdir
        self._user, self._names = user, names
        self._main: asyncio.subprocess.Process | None = None
        self._pid, self._gateway = 0, ""

    async def start(self, variables: Mapping[str, str]) -> None:
        await asyncio.to_thread(self._lay_out)
        if self._memory_mb:
            self._memory = MemoryLimit(self._memory_mb)
        self._variables = {**_VARIABLES, **variables}
        reader, writer = os.pipe()
        try:
            main = ["sh", "-c", ": > /run/ready; exec sleep infinity"]
            command = [*self._bubblewrap(writer), "--chdir", self.workdir, *main]
            self._main = await _started(self._limited(command), self._variables, pass_fds=(writer,))
        finally:
            os.close(writer)
        with os.fdopen(reader) as information:  # written in pieces, then closed
            self._pid = json.loads(await asyncio.to_thread(information.read))["child-pid"]
        while not (self.root / "run/ready").exists():  # told before its mounts stand
            if self._main.returncode is not None:
                raise OSError(f"bubblewrap ended with {self._main.returncode}")
            await asyncio.sleep(0.005)

    async def exec(self, command: str, timeout_seconds: float) -> Ended:
        """As the daemon does: a shell runs it in a process group of its own, both streams into
        one. What keeps them open holds up the end."""
        join = ["nsenter", "-t", str(self._pid), "-m", "-p", "-n", "-i", "-u", "-r", "--"]
        who = ["setpriv", f"--reuid={self._user}", f"--regid={self._user}", "--init-groups", "--"]
        line = ["/bin/sh", "-c", 'cd "$0" && exec bash -c "$1"', self.workdir, command]
        process = await _started(
            self._limited([*join, *([] if self._user == "root" else who), *line]),
            self._variables,
            output=True,
        )
        try:
            output, _ = await asyncio.wait_for(process.communicate(), timeout_seconds)
        except TimeoutError:
            return Ended(-1, b"", timed_out=True)
        finally:  # a client that went away as well: the daemon ends what it started
            if process.returncode is None:
                _kill(process)
        code = process.returncode or 0
        return Ended(code if code >= 0 else 128 - code, output)

    async def allow(self, cidrs: Sequence[str]) -> None:
        """Nothing but these IPv4 ranges can be reached, by what runs already as well."""
        if cidrs and not self._gateway:
            await self._connect()
        if self._gateway:
            # `onlink`: the wire's own route goes as well, or its far end would stay reachable
            routes = [f"route add {cidr} via {self._gateway} dev wire onlink" for cidr in cidrs]
            await self._inside("route flush dev wire", *routes)

    def path(self, name: str) -> Path:
        """A path inside as this machine sees it; links inside are followed inside."""
        inside = os.path.normpath(os.path.join(self.workdir, name))  # noqa: PTH118
        if inside == "/usr" or inside.startswith("/usr/"):
            return Path(inside)
        shown = self.root / inside.lstrip("/")
        for _ in range(40):
            if not shown.is_symlink():
                break
            target = os.readlink(shown)  # noqa: PTH115
            shown = self.root / target.lstrip("/") if target[0] == "/" else shown.parent / target
        return shown

    def kill(self) -> None:
        if self._main is not None and self._main.returncode is None:
            _kill(self._main)

    def remove(self) -> None:
        self.kill()
        if self._memory is not None:
            self._memory.remove()
            self._memory = None
        shutil.rmtree(self.root, ignore_errors=True)

    def _limited(self, argv: Sequence[str]) -> list[str]:
        return list(argv) if self._memory is None else self._memory.around(argv)

    def _lay_out(self) -> None:
        root = self.root
        for name in ("tmp", "root", "etc", "usr", "proc", "dev", "run", "var/tmp"):
            (root / name).mkdir(parents=True, exist_ok=True)
        for name in ("tmp", "var/tmp"):
            (root / name).chmod(0o1777)
        home = root / self.workdir.lstrip("/")
        home.mkdir(parents=True, exist_ok=True)
        shutil.chown(home, self._user)
        for name in ("passwd", "group", "nsswitch.conf", "ld.so.cache"):
            shutil.copy(f"/etc/{name}", root / "etc" / name)
        hosts = "".join(f"{address} {name}\n" for name, address in self._names.items())
        (root / "etc/hosts").write_text(f"127.0.0.1 localhost\n{hosts}")
        for name in ("bin", "sbin", "lib", "lib64"):
            if not (root / name).is_symlink():
                (root / name).symlink_to(f"usr/{name}")

    def _bubblewrap(self, information: int) -> list[str]:
        read_only = [
            part
            for path in ("/usr", "/etc/ssl", "/etc/alternatives")
            for part in ("--ro-bind", path, path)
        ]
        unshared = [f"--unshare-{kind}" for kind in ("pid", "ipc", "uts", "net")]
        memory = self._memory.mounts if self._memory else []
        return [
            *("bwrap", "--bind", str(self.root), "/", *read_only, *memory, "--proc", "/proc"),
            *("--dev", "/dev", *unshared, "--info-fd", str(information), "--die-with-parent"),
        ]

    async def _connect(self) -> None:
        for _ in range(20):
            name = f"dt{secrets.token_hex(5)}"
            gateway = ipaddress.ip_address("198.19.0.0") + 2 * secrets.randbelow(32768)
            made = await _ip(
                ["ip", "-batch", "-"],
                f"link add {name} type veth peer name wire netns {self._pid}",
                f"addr add {gateway}/31 dev {name}",
                f"link set {name} up",
            )
            if made:
                await self._inside(f"addr add {gateway + 1}/31 dev wire", "link set wire up")
                self._gateway = str(gateway)
                return
        raise OSError("no wire to the sandbox could be made")

    async def _inside(self, *lines: str) -> None:
        join = ["nsenter", "-t", str(self._pid), "-n"]
        await _ip([*join, "ip", "-force", "-batch", "-"], *lines)


async def _started(
    argv: Sequence[str],
    variables: Mapping[str, str],
    *,
    output: bool = False,
    pass_fds: Sequence[int] = (),
) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        *argv,
        env=dict(variables),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE if output else asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.STDOUT if output else asyncio.subprocess.DEVNULL,
        start_new_session=True,
        pass_fds=pass_fds,
    )


def _kill(process: asyncio.subprocess.Process) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


async def _ip(argv: Sequence[str], *lines: str) -> bool:
    process = await asyncio.create_subprocess_exec(
        *argv,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    await process.communicate("".join(f"{line}\n" for line in lines).encode())
    return process.returncode == 0
