"""A sandbox without a container engine: namespaces of its own (pid, ipc, uts, mount, network)
made by bubblewrap, rooted in a directory of its own, with this machine's /usr read-only.

Commands join it with nsenter, so that processes in the background, files and the network last
between them. Needs root, bubblewrap, util-linux and iproute2.
"""

import asyncio
import contextlib
import json
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from modal_proto import api_pb2 as api

from tests.standins.memory_limit import MemoryLimit
from tests.standins.modal_command import RunningCommand
from tests.standins.modal_network import SandboxNetwork

_VARIABLES = {"PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", "HOME": "/root"}


def usable() -> bool:
    """Whether sandboxes can be made here."""
    tools = ("bwrap", "nsenter", "ip")
    return os.geteuid() == 0 and all(shutil.which(tool) for tool in tools)


class NamespaceBox:
    def __init__(
        self, root: Path, workdir: str, variables: Mapping[str, str], memory_mb: int
    ) -> None:
        self.root, self.workdir = root, workdir
        self._memory = MemoryLimit(memory_mb) if memory_mb else None
        self._variables = {**_VARIABLES, **variables}
        self.main = RunningCommand()

    async def start(
        self,
        argv: Sequence[str],
        access: api.NetworkAccess,
        names: Mapping[str, str],
        on_exit: Callable[[int], None],
    ) -> None:
        await asyncio.to_thread(self._lay_out, names)
        reader, writer = os.pipe()
        try:
            command = [*self._bubblewrap(writer), "--chdir", self.workdir, *argv]
            await self.main.start(
                self._limited(command), self._variables, on_exit=on_exit, pass_fds=(writer,)
            )
        finally:
            os.close(writer)
        with os.fdopen(reader) as information:  # written in pieces, then closed
            told = await asyncio.to_thread(information.read)
        if not told:
            raise OSError("the sandbox was ended while it started")
        self._pid = json.loads(told)["child-pid"]
        await self._until_inside()
        self.network = SandboxNetwork(self._pid, names)
        await self.network.apply(access)

    async def _until_inside(self) -> None:
        """Its first process still has this machine's files when its number is told; whoever
        joined it then would run among them."""
        wanted, inside = self.root.stat(), Path(f"/proc/{self._pid}/root")
        while self.main.code is None:
            with contextlib.suppress(OSError):
                found = inside.stat()
                ready = (found.st_dev, found.st_ino) == (wanted.st_dev, wanted.st_ino)
                if ready and (inside / "proc/1").exists():
                    return
            await asyncio.sleep(0.002)
        raise OSError("the sandbox did not start")

    async def exec(
        self,
        argv: Sequence[str],
        variables: Mapping[str, str],
        workdir: str | None,
        timeout_seconds: float | None,
    ) -> RunningCommand:
        join = ["nsenter", "-t", str(self._pid), "-m", "-p", "-n", "-i", "-u", "-r", "--"]
        line = ["/bin/sh", "-c", 'cd "$0" && exec "$@"', workdir or self.workdir]
        command = RunningCommand()
        await command.start(
            self._limited([*join, *line, *argv]),
            {**self._variables, **variables},
            timeout_seconds=timeout_seconds,
        )
        return command

    def kill(self) -> None:
        self.main.kill()

    def remove(self) -> None:
        shutil.rmtree(self.root, ignore_errors=True)
        if self._memory is not None:
            self._memory.remove()

    def _limited(self, argv: Sequence[str]) -> Sequence[str]:
        return argv if self._memory is None else self._memory.around(argv)

    def _lay_out(self, names: Mapping[str, str]) -> None:
        root = self.root
        for name in ("tmp", "root", "etc", "usr", "proc", "dev", "run", "var/tmp"):
            (root / name).mkdir(parents=True, exist_ok=True)
        (root / "tmp").chmod(0o1777)
        (root / self.workdir.lstrip("/")).mkdir(parents=True, exist_ok=True)
        for name in ("passwd", "group", "nsswitch.conf", "ld.so.cache"):
            shutil.copy(f"/etc/{name}", root / "etc" / name)
        hosts = "".join(f"{address} {name}\n" for name, address in names.items())
        (root / "etc/hosts").write_text(f"127.0.0.1 localhost\n{hosts}")
        for name in ("bin", "sbin", "lib", "lib64"):
            (root / name).symlink_to(f"usr/{name}")

    def _bubblewrap(self, information: int) -> list[str]:
        read_only = [
            part
            for path in ("/usr", "/etc/ssl", "/etc/alternatives")
            for part in ("--ro-bind", path, path)
        ]
        unshared = [f"--unshare-{kind}" for kind in ("pid", "ipc", "uts", "net")]
        return [
            *("bwrap", "--bind", str(self.root), "/", *read_only, "--proc", "/proc"),
            *(self._memory.mounts if self._memory else ()),
            *("--dev", "/dev", *unshared, "--info-fd", str(information), "--die-with-parent"),
        ]
