"""File work in a host workspace: plain blocking functions, to be run in a thread.

Each looks at `stop` between blocks: a sandbox that closes does not wait for a transfer.
"""

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath
from threading import Event

from agentcompass.components.contracts.sandbox import Capture, CapturedFile, CaptureLimits
from agentcompass.components.environments._host.place import Place

SHORTAGES = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)
"""What tells of this machine, whatever was asked for."""
_BLOCK = 1024 * 1024
_NAMED_AT_MOST = 200
"""Names in `left_out`; beyond them only their number."""
_LISTED_AT_MOST = 200_000
"""Directory entries looked at in one capture."""
_DEPTH_AT_MOST = 200
_QUIETLY = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC  # a FIFO cannot hold us up


def local(name: str) -> str:
    """A name as this process's file functions take it: names are UTF-8, whatever the locale.

    Raises UnicodeEncodeError for what no file can be called.
    """
    return os.fsdecode(name.encode("utf-8", "surrogateescape"))


def read_file(place: Place, path: str, max_bytes: int | None, stop: Event) -> bytes:
    with place.acting():
        descriptor = place.open(path, _QUIETLY)
    try:
        status = os.fstat(descriptor)
        if stat.S_ISDIR(status.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        if not stat.S_ISREG(status.st_mode):
            raise PermissionError(errno.EACCES, "not a regular file", path)
        content = _read(descriptor, None if max_bytes is None else max_bytes + 1, stop)
    finally:
        os.close(descriptor)
    if max_bytes is not None and len(content) > max_bytes:
        raise ValueError(f"{path} is larger than {max_bytes} bytes")
    return content


def write_file(place: Place, path: str, content: bytes, mode: int, stop: Event) -> None:
    view = memoryview(content)
    blocks = (view[start : start + _BLOCK] for start in range(0, len(view), _BLOCK))
    whole = PurePosixPath(path)
    if not whole.name or whole.name == "..":
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    with place.acting():
        parent = place.folder(str(whole.parent), make=True)
        try:
            put(parent, whole.name, blocks, mode, stop)
        finally:
            os.close(parent)


def put(
    folder: int, name: str, blocks: Iterable[bytes | memoryview], mode: int, stop: Event
) -> None:
    """Written beside and renamed: whole or not at all, and a link there is replaced."""
    if _is_directory(folder, name):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), name)
    beside = f".agentcompass-{secrets.token_hex(8)}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(beside, flags, 0o600, dir_fd=folder)
    try:
        with os.fdopen(descriptor, "wb") as file:
            for block in blocks:
                check(stop)
                file.write(block)
            os.fchmod(file.fileno(), mode)
        os.rename(beside, name, src_dir_fd=folder, dst_dir_fd=folder)  # noqa: PTH104
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(beside, dir_fd=folder)  # noqa: PTH108
        raise


def _is_directory(folder: int, name: str) -> bool:
    try:
        return stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
    except FileNotFoundError:
        return False


def capture(place: Place, workdir: str, path: str, limits: CaptureLimits, stop: Event) -> Capture:
    """See Environment.capture. Names that are not UTF-8 are left out: no record could hold them.

    Raises FileNotFoundError or NotADirectoryError for `path` itself.
    """
    start, steps = _starting_point(workdir, Path(path))
    taken = _Taken(limits)
    with place.acting():
        try:
            root = _open_directory(place.open(str(start), _QUIETLY | os.O_DIRECTORY), steps)
        except _LinkError as link:
            return Capture((), (f"{_shown(str(link))}: a link, not followed",))
        try:
            for names, entry in _entries(root, taken, stop):
                _take(root, names, entry, taken, stop)
        finally:
            os.close(root)
    return Capture(tuple(taken.files), taken.left_out())


def _starting_point(workdir: str, path: Path) -> tuple[Path, tuple[str, ...]]:
    """A directory to trust, and the steps from it that must not be links."""
    inside = Path(workdir, path)
    if inside.is_relative_to(workdir):
        return Path(workdir), inside.relative_to(workdir).parts
    # Elsewhere the caller chose the place; only its last part must be no link.
    return path.parent, (path.name,) if path.name else ()


class _LinkError(Exception):
    """A link stands on the way to a directory."""


class _Taken:
    """What a capture holds so far."""

    def __init__(self, limits: CaptureLimits) -> None:
        self.limits = limits
        self.files: list[CapturedFile] = []
        self.bytes_left = limits.max_bytes
        self._reasons: list[str] = []
        self._more = 0

    def leave_out(self, names: tuple[str, ...], reason: str) -> None:
        if len(self._reasons) < _NAMED_AT_MOST:
            self._reasons.append(f"{_shown('/'.join(names) or '.')}: {reason}")
        else:
            self._more += 1

    def left_out(self) -> tuple[str, ...]:
        more = [f"and {self._more} more: not named"] if self._more else []
        return (*self._reasons, *more)


def _entries(
    root: int, taken: _Taken, stop: Event
) -> Iterator[tuple[tuple[str, ...], "os.DirEntry[str]"]]:
    """Everything under a directory but directories: by name, files before what is deeper."""
    waiting: list[tuple[str, ...]] = [()]
    listed = 0
    while waiting:
        folder = waiting.pop()
        try:
            # From the top each time: two descriptors however deep, and no link on the way.
            descriptor = _open_directory(os.dup(root), folder)
        except (OSError, _LinkError) as error:
            _unless_ours(error)
            taken.leave_out(folder, f"cannot be opened ({_reason(error)})")
            continue
        try:
            with os.scandir(descriptor) as scan:
                entries = []
                for entry in scan:
                    check(stop)
                    listed += 1
                    if listed > _LISTED_AT_MOST:
                        taken.leave_out(folder, f"over {_LISTED_AT_MOST} entries, not all seen")
                        waiting.clear()
                        break
                    entries.append(entry)
            deeper = []
            for entry in sorted(entries, key=lambda entry: entry.name):
                names = (*folder, entry.name)
                if not entry.is_dir(follow_symlinks=False):
                    yield names, entry
                elif len(names) > _DEPTH_AT_MOST:
                    taken.leave_out(names, f"over {_DEPTH_AT_MOST} directories deep")
                elif listed <= _LISTED_AT_MOST:
                    deeper.append(names)
            waiting += reversed(deeper)
        finally:
            os.close(descriptor)


def _take(
    root: int, names: tuple[str, ...], entry: "os.DirEntry[str]", taken: _Taken, stop: Event
) -> None:
    try:
        path = os.fsencode("/".join(names)).decode("utf-8")
        status = entry.stat(follow_symlinks=False)
        if not stat.S_ISREG(status.st_mode):
            taken.leave_out(names, f"a {_kind(status.st_mode)}, not a regular file")
        elif len(taken.files) >= taken.limits.max_files:
            taken.leave_out(names, f"over the limit of {taken.limits.max_files} files")
        elif status.st_size > taken.bytes_left:
            limit = f"over the limit of {taken.limits.max_bytes} bytes in all"
            taken.leave_out(names, f"{status.st_size} bytes, {limit}")
        else:
            content, mode = _content(root, names, taken.bytes_left, stop)
            taken.files.append(CapturedFile(path, content, mode))
            taken.bytes_left -= len(content)
    except UnicodeDecodeError:
        taken.leave_out(names, "its name is not UTF-8")
    except (OSError, ValueError, _LinkError) as error:
        _unless_ours(error)
        taken.leave_out(names, f"cannot be read ({_reason(error)})")


def _unless_ours(error: Exception) -> None:
    """A shortage of this machine is no property of a file: it must not pass for one."""
    if isinstance(error, OSError) and error.errno in SHORTAGES:
        raise error


def _content(root: int, names: tuple[str, ...], room: int, stop: Event) -> tuple[bytes, int]:
    folder = _open_directory(os.dup(root), names[:-1])
    try:
        descriptor = os.open(names[-1], _QUIETLY | os.O_NOFOLLOW, dir_fd=folder)
    finally:
        os.close(folder)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise ValueError("it was replaced while it was read")
        content = _read(descriptor, room + 1, stop)
        if len(content) > room:
            raise ValueError("it grew over the limit while it was read")
        return content, stat.S_IMODE(status.st_mode) & 0o777
    finally:
        os.close(descriptor)


def _open_directory(start: int, steps: tuple[str, ...]) -> int:
    """Walk down from an open directory, which is closed, without following links."""
    current = start
    for index, step in enumerate(steps):
        try:
            following = os.open(step, _QUIETLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=current)
        except OSError:
            if stat.S_ISLNK(os.stat(step, dir_fd=current, follow_symlinks=False).st_mode):
                raise _LinkError("/".join(steps[: index + 1])) from None
            raise
        finally:
            os.close(current)
        current = following
    return current


def _read(descriptor: int, most: int | None, stop: Event) -> bytes:
    content = bytearray()
    while most is None or len(content) < most:
        check(stop)
        wanted = _BLOCK if most is None else min(_BLOCK, most - len(content))
        block = os.read(descriptor, wanted)
        if not block:
            break
        content += block
    return bytes(content)


def check(stop: Event) -> None:
    if stop.is_set():
        raise InterruptedError("the sandbox is closing")


def _kind(mode: int) -> str:
    kinds = {stat.S_IFLNK: "link", stat.S_IFIFO: "FIFO", stat.S_IFSOCK: "socket"}
    return kinds.get(stat.S_IFMT(mode), "device")


def _reason(error: Exception) -> str:
    if isinstance(error, _LinkError):
        return "a link on the way"
    return (error.strerror or str(error)) if isinstance(error, OSError) else str(error)


def _shown(name: str) -> str:
    """On one line and in UTF-8, whatever the name holds."""
    readable = os.fsencode(name).decode("utf-8", errors="backslashreplace")
    return readable.translate(_CONTROL)


_CONTROL = {code: f"\\x{code:02x}" for code in (*range(32), 127)}
