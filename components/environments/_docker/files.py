"""Files of a container, through commands as root in it: what a running process sees, mounts
and all, is what is read and written. Needs coreutils or busybox in the image."""

import asyncio
import errno
import os
import re
import secrets
import tarfile
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, TYPE_CHECKING

from agentcompass.components.contracts.errors import AgentCompassError, Code
from agentcompass.components.environments._docker.command import ROOT, Start, lost, plain
from agentcompass.components.environments._docker.engine import Engine
from agentcompass.components.environments._docker.file_scripts import (
    IDENTITY,
    OOM_KILLS,
    PARENTS,
    READ,
    WRITE,
)
from agentcompass.components.environments._docker.scripts import OWN_PATH
from agentcompass.components.environments._docker.stream import Sink

if TYPE_CHECKING:
    from docker import DockerClient

_SPOOL_BYTES = 16 * 1024 * 1024
_SAID_BYTES = 4_000
LARGEST_FILE_BYTES = 1024 * 1024 * 1024
"""Of a file that is read whole."""


@dataclass(frozen=True)
class Place:
    """Where files are, and whose they become."""

    engine: Engine
    container: str
    user: str
    """Who runs commands; empty: root."""
    disk_limited: bool = False
    """A full disk is the sandbox's own."""

    async def script(self, script: str, *words: str, stdin: bytes = b"") -> tuple[int, str]:
        """A script of ours as root: exit code, and what it said on both streams."""
        said = Kept(_SAID_BYTES)
        code = await self._run(script, words, said.add, said.add, stdin)
        return code, said.content.decode("utf-8", "replace").strip()

    async def stream(self, script: str, *words: str, sink: Sink) -> int:
        """The same, its output as it comes; errors are not kept."""
        return await self._run(script, words, sink, Kept(0).add)

    async def _run(
        self, script: str, words: Sequence[str], stdout: Sink, stderr: Sink, stdin: bytes = b""
    ) -> int:
        start = Start(["/bin/sh", "-c", OWN_PATH + script, "sh", *words], "0", {"LC_ALL": "C"})
        return await plain(self.engine, self.container, start, stdout, stderr, stdin)

    @property
    def owner(self) -> str:
        """As `chown` takes it; empty: root, nothing to change."""
        if self.user in ROOT:
            return ""
        return self.user if ":" in self.user or self.user.isdigit() else f"{self.user}:"


class Kept:
    """A sink that keeps so many bytes and drops the rest: our limits inside the sandbox hold only
    as long as nobody has replaced the programs there."""

    def __init__(self, most: int) -> None:
        self.content = bytearray()
        self.over = False
        self._most = most

    def add(self, data: bytes) -> None:
        room = self._most - len(self.content)
        self.over = self.over or len(data) > room
        self.content += data[: max(room, 0)]


async def read_file(place: Place, path: str, max_bytes: int | None) -> bytes:
    most = LARGEST_FILE_BYTES if max_bytes is None else max_bytes
    kept = Kept(most)
    code = await place.stream(READ, path, str(most + 1), sink=kept.add)
    check(place, code, path, "cannot be read")
    if kept.over:
        raise ValueError(f"{path} is larger than {most} bytes")
    return bytes(kept.content)


async def write_file(place: Place, path: str, content: bytes, mode: int) -> None:
    _check_name(path)
    beside = f".agentcompass-{secrets.token_hex(8)}"
    words = (path, beside, f"{mode:o}", place.owner, str(len(content)))
    code, said = await place.script(WRITE, *words, stdin=content)
    check(place, code, path, said)


async def upload(place: Place, source: Path, target: str) -> None:
    """Through the engine's archive interface, which streams: it may be larger than memory."""
    folder = await asyncio.to_thread(source.is_dir)
    if not folder:
        _check_name(target)
    where = target if folder else str(PurePosixPath(target).parent)
    code, said = await place.script(PARENTS, target, "folder" if folder else "file", place.owner)
    check(place, code, target, said)
    uid, gid = await _identity(place)
    name = None if folder else PurePosixPath(target).name
    with tempfile.SpooledTemporaryFile(_SPOOL_BYTES) as archive:
        await asyncio.to_thread(_pack, archive, source, name, uid, gid)
        try:
            await place.engine.call(_put, place.container, where, archive)
        except Exception as error:  # any of the SDK's and its transport's
            raise lost(error) from error


async def oom_kills(place: Place, known: int) -> int:
    """How many processes the memory limit has killed; `known`, where no shell is left to tell.

    Raises environment.lost when the container is ending: nothing can be started in it any more.
    """
    code, said = await place.script(OOM_KILLS)
    if code == 0 and said.isdigit():
        return int(said)
    if code in (126, 127) and re.search("not found|no such file|permission denied", said, re.I):
        return known  # the agent has removed it: its own doing
    raise AgentCompassError(Code.ENVIRONMENT_LOST, f"the container is ending: {said[:200]}")


async def _identity(place: Place) -> tuple[int, int]:
    """Numbers of who runs commands."""
    if not place.owner:
        return 0, 0
    said = Kept(_SAID_BYTES)
    start = Start(["/bin/sh", "-c", OWN_PATH + IDENTITY], place.user, {})
    await plain(place.engine, place.container, start, said.add, said.add)
    words = said.content.split()
    if len(words) != 2:
        text = said.content.decode("utf-8", "replace")
        raise AgentCompassError(
            Code.ENVIRONMENT_SETUP, f"commands cannot run as {place.user!r}: {text}"
        )
    return int(words[0]), int(words[1])


def _pack(archive: IO[bytes], source: Path, name: str | None, uid: int, gid: int) -> None:
    def owned(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
        if not (member.isreg() or member.isdir() or member.issym() or member.islnk()):
            return None  # a FIFO, socket or device cannot be copied
        member.uid, member.gid, member.uname, member.gname = uid, gid, "", ""
        return member

    with tarfile.open(fileobj=archive, mode="w", format=tarfile.GNU_FORMAT) as tar:
        if name is not None:
            tar.dereference = source.is_symlink()  # the one file that was asked for
            tar.add(source, arcname=name, recursive=False, filter=owned)
        else:
            for entry in sorted(source.iterdir()):
                tar.add(entry, arcname=entry.name, filter=owned)
    archive.seek(0)


def _put(client: "DockerClient", container: str, where: str, archive: IO[bytes]) -> None:
    client.api.put_archive(container, where, archive)


def _check_name(path: str) -> None:
    if path.endswith("/") or PurePosixPath(path).name in ("", ".."):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)


def check(place: Place, code: int, path: str, said: str) -> None:
    """The scripts' exit codes as exceptions."""
    kinds = {
        102: (FileNotFoundError, errno.ENOENT),
        113: (PermissionError, errno.EACCES),
        120: (NotADirectoryError, errno.ENOTDIR),
        121: (IsADirectoryError, errno.EISDIR),
    }
    if code == 0:
        return
    if code == 137 or "OCI runtime exec failed" in said and "executable file" not in said:
        raise AgentCompassError(
            Code.ENVIRONMENT_LOST, f"the container is ending: {said[:200] or 'killed'}"
        )
    if code in kinds:
        kind, number = kinds[code]
        raise kind(number, os.strerror(number), path)
    if code == 128 and not place.disk_limited:
        raise AgentCompassError(
            Code.ENVIRONMENT_DISK_FULL,
            f"no space is left where the engine keeps containers: {said}",
        )
    if code in (127, 128):
        number = errno.ENOSPC if code == 128 else errno.ENOSYS
        raise OSError(number, said or os.strerror(number), path)
    raise PermissionError(errno.EACCES, said or os.strerror(errno.EACCES), path)
