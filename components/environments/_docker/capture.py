"""The regular files below a directory of a container, within limits."""

import errno
import posixpath
import secrets
import stat
from collections.abc import Iterator
from dataclasses import dataclass

from agentcompass.components.contracts.sandbox import Capture, CapturedFile, CaptureLimits
from agentcompass.components.environments._docker.file_scripts import CONTENTS, LIST
from agentcompass.components.environments._docker.files import Kept, Place, check
from agentcompass.components.environments._docker.marks import MarkedOutput

_NAMED_AT_MOST = 200
"""Names in `left_out`; beyond them only their number."""
_SIZED_AT_MOST = 1_000
"""Files over the limit on their number whose size is asked for: each costs a process."""
_LISTING_BYTES = 128 * 1024 * 1024
"""200,000 entries with long names; more is no listing of ours."""
_BATCH_FILES = 200
_BATCH_BYTES = 200_000
_KINDS = {"l": "link", "p": "FIFO", "s": "socket", "d": "device"}


@dataclass(frozen=True)
class _Entry:
    kind: str
    mode: int
    size: int
    path: bytes


async def capture(place: Place, workdir: str, path: str, limits: CaptureLimits) -> Capture:
    """Raises FileNotFoundError or NotADirectoryError for `path` itself."""
    root = path.rstrip("/") or "/"
    steps = _steps(workdir, root)
    listing = Kept(_LISTING_BYTES)
    sized = str(limits.max_files + _SIZED_AT_MOST)
    code = await place.stream(LIST, root, sized, *steps, sink=listing.add)
    if listing.over:
        raise PermissionError(errno.EACCES, "its listing does not end", path)
    check(place, code, path, "cannot be listed")
    taken = _Taken(limits, root)
    try:
        wanted = [entry for entry in _entries(listing.content) if taken.wants(entry)]
    except ValueError:  # another program's words: the agent has replaced one of ours
        raise PermissionError(errno.EACCES, "its listing cannot be read", path) from None
    for batch in _batches(wanted):
        await _read(place, batch, taken)
    return Capture(tuple(taken.files), taken.left_out())


def _steps(workdir: str, root: str) -> list[str]:
    """What must be no link: all parts below the workdir; elsewhere the caller chose the place,
    only its last part."""
    inside = root.removeprefix(workdir.rstrip("/") + "/")
    if inside == root or ".." in inside.split("/"):
        return [root]
    steps = [workdir.rstrip("/")]
    for part in inside.split("/"):
        steps.append(f"{steps[-1]}/{part}")
    return steps[1:]


class _Taken:
    """What a capture holds so far."""

    def __init__(self, limits: CaptureLimits, root: str) -> None:
        self.files: list[CapturedFile] = []
        self._root = root.rstrip("/").encode() + b"/"
        self._limits = limits
        self._count = 0
        self._bytes_left = limits.max_bytes
        self._reasons: list[str] = []
        self._more = 0

    def wants(self, entry: _Entry) -> bool:
        reason = self._objection(entry)
        if reason is not None:
            self.leave_out(entry.path, reason)
            return False
        self._count += 1
        self._bytes_left -= entry.size
        return True

    def leave_out(self, path: bytes, reason: str) -> None:
        if len(self._reasons) < _NAMED_AT_MOST:
            name = path.removeprefix(self._root).decode("utf-8", "backslashreplace") or "."
            shown = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in name)
            self._reasons.append(f"{shown}: {reason}")
        else:
            self._more += 1

    def left_out(self) -> tuple[str, ...]:
        more = [f"and {self._more} more: not named"] if self._more else []
        return (*self._reasons, *more)

    def add(self, entry: _Entry, content: bytes) -> None:
        name = entry.path.removeprefix(self._root).decode()
        self.files.append(CapturedFile(name, content, stat.S_IMODE(entry.mode) & 0o777))

    def _objection(self, entry: _Entry) -> str | None:
        if entry.kind == "L":
            return "a link, not followed"
        if entry.kind == "M":
            return "over 200000 entries, not all seen"
        if entry.kind != "f":
            return f"a {_KINDS[entry.kind]}, not a regular file"
        if not _is_text(entry.path):
            return "its name is not UTF-8"
        if self._count >= self._limits.max_files or entry.size < 0:
            return f"over the limit of {self._limits.max_files} files"
        if entry.size > self._bytes_left:
            return f"{entry.size} bytes, over the limit of {self._limits.max_bytes} bytes in all"
        return None


def _entries(listing: bytearray) -> Iterator[_Entry]:
    for record in bytes(listing).split(b"\0")[:-1]:
        kind, mode, size, path = record.split(b" ", 3)
        yield _Entry(kind.decode(), int(mode, 16), int(size), path)


def _is_text(path: bytes) -> bool:
    try:
        path.decode()
    except UnicodeDecodeError:
        return False
    return True


def _batches(entries: list[_Entry]) -> Iterator[list[_Entry]]:
    batch: list[_Entry] = []
    size = 0
    for entry in entries:
        if batch and (len(batch) == _BATCH_FILES or size + len(entry.path) > _BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(entry)
        size += len(entry.path)
    if batch:
        yield batch


async def _read(place: Place, batch: list[_Entry], taken: _Taken) -> None:
    nonce = secrets.token_hex(16)
    words = [word for entry in batch for word in (entry.path.decode(), str(entry.size))]
    waiting = iter(batch)
    content = bytearray()
    room = sum(entry.size for entry in batch) + 1

    def on_content(data: bytes) -> None:
        content.extend(data[: room - len(content)])

    def on_mark(told: list[str]) -> None:
        if (entry := next(waiting, None)) is None:
            return
        if told == ["0"] and len(content) <= entry.size:
            taken.add(entry, bytes(content))
        else:
            taken.leave_out(entry.path, "cannot be read, or was replaced while it was read")
        content.clear()

    output = MarkedOutput(nonce, on_content, on_mark)
    code = await place.stream(CONTENTS, nonce, *words, sink=output.add)
    check(place, code, posixpath.dirname(words[0]), "cannot be read")
