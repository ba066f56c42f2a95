"""From where file paths of a host sandbox count, and as whom its files are touched.

Without isolation that is this machine's own root directory. With it, it is the root the sandbox
itself sees, held as an open directory: every link, absolute ones included, is followed within
that view (the kernel's `RESOLVE_IN_ROOT`), so that none leads to a file of the host.
"""

import ctypes
import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import PurePosixPath

_OPENAT2 = 437  # one number on every architecture
_NO_MAGIC_LINKS, _IN_ROOT = 0x02, 0x10
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_TRIES = 100


class Place:
    """Takes absolute paths. `owner`: the user and group id files are read and written as;
    None: ours."""

    def __init__(self, root: int | None = None, owner: int | None = None) -> None:
        self.root = root
        self.owner = owner

    def close(self) -> None:
        if self.root is not None:
            os.close(self.root)

    def open(self, path: str, flags: int) -> int:
        """A descriptor of what stands there, links followed. Raises OSError."""
        if self.root is None:
            return os.open(path, flags)
        return _open_in_root(self.root, path, flags)

    def folder(self, path: str, *, make: bool = False) -> int:
        """A descriptor of a directory; missing ones are made with their parents on demand."""
        try:
            return self.open(path, _DIRECTORY)
        except FileNotFoundError:
            if not make:
                raise
        whole = PurePosixPath(path)
        if whole.parent == whole:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        parent = self.folder(str(whole.parent), make=True)
        try:
            os.mkdir(whole.name, 0o755, dir_fd=parent)  # noqa: PTH102 (from a descriptor)
        except FileExistsError:
            pass  # made meanwhile; a link that leads nowhere fails below
        finally:
            os.close(parent)
        return self.open(path, _DIRECTORY)

    @contextmanager
    def acting(self) -> Iterator[None]:
        """This thread touches files as who runs the commands. Linux keeps that per thread."""
        if self.owner is None:
            yield
            return
        library = ctypes.CDLL(None)
        library.setfsgid(self.owner)
        library.setfsuid(self.owner)
        try:
            yield
        finally:
            library.setfsuid(os.geteuid())
            library.setfsgid(os.getegid())


class _How(ctypes.Structure):
    _fields_ = (
        ("flags", ctypes.c_uint64),
        ("mode", ctypes.c_uint64),
        ("resolve", ctypes.c_uint64),
    )


def _open_in_root(root: int, path: str, flags: int) -> int:
    """openat2(2), which Python does not have; Linux 5.6."""
    library = ctypes.CDLL(None, use_errno=True)
    how = _How(flags | os.O_CLOEXEC, 0, _IN_ROOT | _NO_MAGIC_LINKS)
    encoded = os.fsencode(path)
    for _ in range(_TRIES):
        found: int = library.syscall(_OPENAT2, root, encoded, ctypes.byref(how), ctypes.sizeof(how))
        if found >= 0:
            return found
        number = ctypes.get_errno()
        if number not in (errno.EAGAIN, errno.EINTR):  # EAGAIN: something was renamed meanwhile
            break
    raise OSError(number, os.strerror(number), path)
