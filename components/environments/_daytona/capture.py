"""Reading the files below a directory of a Daytona sandbox: listed first, then packed."""

import io
import re
import stat
import tarfile
from dataclasses import dataclass

from agentcompass.components.contracts.sandbox import Capture, CapturedFile, CaptureLimits
from agentcompass.components.environments._daytona.commands import DaytonaCommands, Outcome

_NAMED_AT_MOST = 200
"""Names in `left_out`; beyond them only their number."""
_LIST_BYTES = 32 * 1024 * 1024
_END = b"//\n"
"""Ends an entry: no path below a directory holds it, whatever names hold."""

_LIST = r"""
[ ! -L "$1" ] || exit 26
[ -e "$1" ] || exit 20
[ -d "$1" ] || exit 27
cd "$1" || exit 22
find . ! -type d -exec stat -c '%f %s %n//' {} +
exit 0
"""

_PACK = 'cd "$1" && shift && tar -c -f - "$@"; exit 0'


@dataclass(frozen=True)
class _Entry:
    path: str
    """POSIX, relative; not UTF-8: as surrogates."""
    mode: int
    size: int


async def capture(
    commands: DaytonaCommands, user: str | None, path: str, limits: CaptureLimits
) -> tuple[Outcome, Capture]:
    """The listing's outcome tells whether there is anything; see Environment.capture."""
    listing = await commands.run(
        ["/bin/sh", "-c", _LIST, "sh", path],
        cwd="/",
        variables={"LC_ALL": "C"},
        user=user,
        limit_bytes=_LIST_BYTES,
    )
    if listing.exit_code != 0 or listing.refused:
        return listing, Capture(())
    taken = _Taken(limits)
    for reason in _unreadable(listing.stderr.content):
        taken.leave_out(*reason)
    if listing.stdout.dropped:
        taken.leave_out(".", "too many files, not all seen")
    wanted = [entry for entry in _entries(listing.stdout.head) if taken.wants(entry)]
    if wanted:
        await _fetch(commands, user, path, wanted, taken)
    return listing, Capture(tuple(taken.files), taken.left_out())


class _Taken:
    """What a capture holds so far."""

    def __init__(self, limits: CaptureLimits) -> None:
        self._limits = limits
        self.files: list[CapturedFile] = []
        self._count, self._bytes = 0, 0
        self._reasons: list[str] = []
        self._more = 0

    def wants(self, entry: _Entry) -> bool:
        limits = self._limits
        kind = stat.S_IFMT(entry.mode)
        kinds = {stat.S_IFLNK: "link", stat.S_IFIFO: "FIFO", stat.S_IFSOCK: "socket"}
        if kind != stat.S_IFREG:
            self.leave_out(entry.path, f"a {kinds.get(kind, 'device')}, not a regular file")
        elif any("\udc80" <= character <= "\udcff" for character in entry.path):
            self.leave_out(entry.path, "its name is not UTF-8")
        elif self._count >= limits.max_files:
            self.leave_out(entry.path, f"over the limit of {limits.max_files} files")
        elif self._bytes + entry.size > limits.max_bytes:
            limit = f"over the limit of {limits.max_bytes} bytes in all"
            self.leave_out(entry.path, f"{entry.size} bytes, {limit}")
        else:
            self._count += 1
            self._bytes += entry.size
            return True
        return False

    def leave_out(self, path: str, reason: str) -> None:
        if len(self._reasons) < _NAMED_AT_MOST:
            self._reasons.append(f"{_shown(path)}: {reason}")
        else:
            self._more += 1

    def left_out(self) -> tuple[str, ...]:
        more = [f"and {self._more} more: not named"] if self._more else []
        return (*self._reasons, *more)


async def _fetch(
    commands: DaytonaCommands, user: str | None, path: str, wanted: list[_Entry], taken: _Taken
) -> None:
    names = [f"./{entry.path}" for entry in wanted]
    overhead = sum(4096 + 2 * len(name.encode("utf-8", "surrogateescape")) for name in names)
    expected = sum(entry.size for entry in wanted)
    packed = await commands.run(
        ["/bin/sh", "-c", _PACK, "sh", path, *names],
        cwd="/",
        variables={"LC_ALL": "C"},
        user=user,
        limit_bytes=expected + overhead + 65536,
    )
    found: dict[str, CapturedFile] = {}
    room = expected
    if not packed.stdout.dropped:
        with tarfile.open(fileobj=io.BytesIO(packed.stdout.content), mode="r|") as archive:
            for member in archive:
                file = archive.extractfile(member) if member.isreg() else None
                if file is None or member.size > room:
                    continue
                name = member.name.removeprefix("./")
                found[name] = CapturedFile(name, file.read(), member.mode & 0o777)
                room -= member.size
    for entry in wanted:
        if entry.path in found:
            taken.files.append(found[entry.path])
        else:
            taken.leave_out(entry.path, "cannot be read, or changed while it was read")


def _entries(listing: bytes) -> list[_Entry]:
    """By name, files before what is deeper."""
    entries = []
    for line in listing.split(_END)[:-1]:
        mode, size, name = line.split(b" ", 2)
        path = name.decode("utf-8", "surrogateescape").removeprefix("./")
        entries.append(_Entry(path, int(mode, 16), int(size)))

    def order(entry: _Entry) -> list[tuple[int, str]]:
        *folders, name = entry.path.split("/")
        return [*((1, folder) for folder in folders), (0, name)]

    return sorted(entries, key=order)


def _unreadable(complaints: bytes) -> list[tuple[str, str]]:
    text = complaints.decode("utf-8", "surrogateescape")
    found = re.findall(r"^find: ['‘]?\./(.+?)['’]?: ([A-Z][a-z ]+)$", text, re.MULTILINE)
    return [(name, f"cannot be opened ({reason})") for name, reason in found]


def _shown(name: str) -> str:
    """On one line and in UTF-8, whatever the name holds."""
    raw = name.encode("utf-8", "surrogateescape")
    return raw.decode("utf-8", errors="backslashreplace").translate(_CONTROL)


_CONTROL = {code: f"\\x{code:02x}" for code in (*range(32), 127)}
