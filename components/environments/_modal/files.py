"""Files in a Modal sandbox, through commands: any size, any bytes, limits kept while they come."""

import asyncio
import errno
import io
import os
import re
import tarfile
import tempfile
from collections.abc import AsyncIterator, Sequence
from pathlib import Path, PurePosixPath
from typing import IO

from agentcompass.components.contracts.errors import AgentCompassError, Code
from agentcompass.components.contracts.sandbox import Capture, CapturedFile, CaptureLimits
from agentcompass.components.environments._modal import scripts
from agentcompass.components.environments._modal.commands import Commands
from agentcompass.components.environments._modal.listing import Listing

_BLOCK = 512 * 1024
_TRANSFER_SECONDS = 3600.0
_MOST_LISTED_BYTES = 64 * 1024 * 1024
_MOST_ARGUMENT_BYTES = 24 * 1024
"""Of paths handed to one script: Modal allows 64 KiB, counted with the script."""


class Owner:
    """Who gets what is written; nobody: as the image's own user."""

    def __init__(self, user_id: int | None = None, group_id: int | None = None) -> None:
        self.user_id, self.group_id = user_id or 0, group_id or 0
        self.text = "" if user_id is None else f"{user_id}:{group_id}"


async def read_file(commands: Commands, path: str, max_bytes: int | None) -> bytes:
    content = bytearray()
    most = "" if max_bytes is None else str(max_bytes + 1)
    code, _, said = await commands.short(
        scripts.READ, path, most, sink=content.extend, timeout_seconds=_TRANSFER_SECONDS
    )
    _check(code, said, path)
    if max_bytes is not None and len(content) > max_bytes:
        raise ValueError(f"{path} is larger than {max_bytes} bytes")
    return bytes(content)


async def write_file(
    commands: Commands,
    path: str,
    content: "bytes | IO[bytes]",
    size: int,
    mode: int,
    owner: Owner,
) -> None:
    target = PurePosixPath(path)
    if target.name in ("", ".."):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    code, _, said = await commands.short(
        scripts.WRITE,
        *(path, str(target.parent), f"{mode:o}", str(size), owner.text),
        stdin=content if isinstance(content, bytes) else _blocks(content),
        timeout_seconds=_TRANSFER_SECONDS,
    )
    _check(code, said, path)


async def upload(commands: Commands, source: Path, target: str, owner: Owner) -> None:
    """The source itself may be a link; links below it stay links."""
    source = await asyncio.to_thread(source.resolve, True)
    if not source.is_dir():
        if not source.is_file():
            raise ValueError(f"{source} is neither a file, a folder nor a link")
        with source.open("rb") as file:
            status = os.fstat(file.fileno())
            mode = status.st_mode & 0o777
            await write_file(commands, target, file, status.st_size, mode, owner)
        return
    with tempfile.TemporaryFile() as packed:
        await asyncio.to_thread(_pack, source, packed, owner)
        code, _, said = await commands.short(
            scripts.UNPACK,
            *(target, owner.text),
            stdin=_blocks(packed),
            timeout_seconds=_TRANSFER_SECONDS,
        )
    _check(code, said, target)


async def capture(commands: Commands, path: str, limits: CaptureLimits) -> Capture:
    listed = bytearray()

    def keep(data: bytes) -> None:
        listed.extend(data[: _MOST_LISTED_BYTES - len(listed)])

    code, _, said = await commands.short(
        scripts.LIST, path, sink=keep, timeout_seconds=_TRANSFER_SECONDS
    )
    if code == scripts.IS_LINK:
        return Capture((), (f"{PurePosixPath(path).name}: a link, not followed",))
    _check(code, said, path)
    listing = Listing(bytes(listed), limits)
    files: list[CapturedFile] = []
    for batch in _batches(listing.chosen):
        archive = bytearray()
        room = sum(listing.size(name) for name in batch) + 16_384 * (len(batch) + 2)

        def take(data: bytes, archive: bytearray = archive, room: int = room) -> None:
            if len(archive) + len(data) > room:
                raise _Grown
            archive.extend(data)

        arguments = (path, *(f"./{name}" for name in batch))
        try:
            await commands.short(
                scripts.PACK, *arguments, sink=take, timeout_seconds=_TRANSFER_SECONDS
            )
        except _Grown:
            for name in batch:
                listing.leave_out(name, "it grew over the limit while it was read")
            continue
        files += await asyncio.to_thread(_unpacked, bytes(archive), batch, listing)
    return Capture(tuple(files), listing.left_out())


class _Grown(Exception):
    pass


def _unpacked(archive: bytes, names: Sequence[str], listing: Listing) -> list[CapturedFile]:
    found = {}
    try:
        with tarfile.open(fileobj=io.BytesIO(archive), encoding="utf-8") as packed:
            for member in packed:
                name = member.name.removeprefix("./")
                if member.islnk():  # a second name of a file already in the archive
                    member = packed.getmember(member.linkname)
                content = packed.extractfile(member) if member.isfile() else None
                if content is not None:
                    found[name] = CapturedFile(name, content.read(), member.mode & 0o777)
    except (tarfile.TarError, KeyError, EOFError):
        pass  # cut short: what is missing is named below
    for name in names:
        if name not in found:
            listing.leave_out(name, "cannot be read (it changed meanwhile)")
    return [found[name] for name in names if name in found]


def _batches(names: Sequence[str]) -> list[list[str]]:
    batches: list[list[str]] = []
    used = _MOST_ARGUMENT_BYTES
    for name in names:
        length = len(name.encode()) + 3
        if used + length > _MOST_ARGUMENT_BYTES:
            batches.append([])
            used = 0
        batches[-1].append(name)
        used += length
    return batches


def _pack(source: Path, packed: IO[bytes], owner: Owner) -> None:
    def ours(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
        if not (member.isfile() or member.isdir() or member.issym() or member.islnk()):
            raise ValueError(f"{source / member.name} is neither a file, a folder nor a link")
        member.uid, member.gid = owner.user_id, owner.group_id
        member.uname = member.gname = ""
        return member

    with tarfile.open(fileobj=packed, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for entry in sorted(source.iterdir()):  # not the folder: one there keeps its own mode
            archive.add(entry, entry.name, filter=ours)
    packed.seek(0)


async def _blocks(file: IO[bytes]) -> AsyncIterator[bytes]:
    while block := await asyncio.to_thread(file.read, _BLOCK):
        yield block


def _check(code: int, said: str, path: str) -> None:
    """Raises what the contract names for a script's exit code."""
    match code:
        case 0:
            return
        case scripts.MISSING:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        case scripts.IS_DIRECTORY:
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        case scripts.NOT_A_DIRECTORY:
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
        case scripts.NOT_A_FILE:
            raise PermissionError(errno.EACCES, "not a regular file", path)
        case scripts.CUT_SHORT:
            raise AgentCompassError(Code.ENVIRONMENT_LOST, f"modal: {path} arrived incomplete")
    if re.search("not a directory|file exists", said, re.IGNORECASE):
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
    if re.search("permission denied|read-only|not permitted", said, re.IGNORECASE):
        raise PermissionError(errno.EACCES, said, path)
    raise AgentCompassError(
        Code.ENVIRONMENT_SETUP, f"modal: {path} cannot be used: {said or f'exit code {code}'}"
    )
