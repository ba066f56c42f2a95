"""Copying local files and folders into a host sandbox: blocking, to be run in a thread.

The source is read as who runs AgentCompass, the copy written as who runs the commands.
"""

import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from threading import Event

from agentcompass.components.environments._host.files import put
from agentcompass.components.environments._host.place import Place

_BLOCK = 1024 * 1024
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


def upload(place: Place, source: Path, target: str, stop: Event) -> None:
    """See Environment.upload. The source itself may be a link; links below it stay links. A
    folder that is there keeps its own mode.

    Raises FileNotFoundError, IsADirectoryError or NotADirectoryError where a file meets a
    folder, ValueError for what is neither file, folder nor link.
    """
    source = source.resolve(strict=True)
    whole = PurePosixPath(target)
    if not source.is_dir() and whole.name in ("", ".."):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), target)
    with place.acting():
        parent = place.folder(str(whole.parent), make=True)
    try:
        if not source.is_dir():
            _copy_file(place, source, parent, whole.name, stop)
        elif whole.name in ("", "..") or _is_there(place, target):
            with place.acting():
                folder = place.folder(target)
            try:
                _fill(place, source, folder, stop)
            finally:
                os.close(folder)
        else:
            _copy_folder(place, source, parent, whole.name, stop)
    finally:
        os.close(parent)


def _is_there(place: Place, target: str) -> bool:
    try:
        with place.acting():
            os.close(place.folder(target))
    except FileNotFoundError:
        return False
    return True


def _fill(place: Place, source: Path, folder: int, stop: Event) -> None:
    for entry in sorted(source.iterdir()):
        mode = entry.lstat().st_mode
        if stat.S_ISLNK(mode):
            text = str(entry.readlink())
            with place.acting():
                _link(text, folder, entry.name)
        elif stat.S_ISDIR(mode):
            _copy_folder(place, entry, folder, entry.name, stop)
        else:
            _copy_file(place, entry, folder, entry.name, stop)


def _copy_folder(place: Place, source: Path, parent: int, name: str, stop: Event) -> None:
    mode = source.stat().st_mode & 0o777
    with place.acting():
        try:
            os.mkdir(name, 0o755, dir_fd=parent)  # noqa: PTH102 (from a descriptor)
            made = True
        except FileExistsError:
            made = False
        folder = os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=parent)
    try:
        _fill(place, source, folder, stop)
        if made:  # afterwards: it may be one that nobody can write to
            with place.acting():
                os.fchmod(folder, mode)
    finally:
        os.close(folder)


def _copy_file(place: Place, source: Path, folder: int, name: str, stop: Event) -> None:
    # Not to be held up by a FIFO put in the file's place.
    descriptor = os.open(source, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise ValueError(f"{source} is neither a file, a folder nor a link")
        with place.acting():
            put(folder, name, _blocks(descriptor), status.st_mode & 0o777, stop)
    finally:
        os.close(descriptor)


def _blocks(descriptor: int) -> Iterator[bytes]:
    while block := os.read(descriptor, _BLOCK):
        yield block


def _link(text: str, folder: int, name: str) -> None:
    """Put a link in place of whatever file or link is there."""
    try:
        os.symlink(text, name, dir_fd=folder)  # noqa: PTH211
    except FileExistsError:
        os.unlink(name, dir_fd=folder)  # noqa: PTH108
        os.symlink(text, name, dir_fd=folder)  # noqa: PTH211
