"""Ending a host sandbox for good: every process it started, every file it holds.

Used inside the keeper, a program of its own: standard library only.
"""

import contextlib
import os
import signal
import sys
import time

MARKER = "AGENTCOMPASS_SANDBOX"
"""Set for every command to its sandbox's root folder; how a sweep knows the processes."""
GRACE_SECONDS = 0.5
"""Between TERM and KILL."""
KILL_SECONDS = 5.0
"""How long to go on killing: a process stuck in the kernel must not hold up the end."""


def end_descendants(main_pid: int | None = None) -> None:
    """TERM, a grace, then KILL until this process has no descendants left.

    `main_pid`: leader of the process group to fall back on where descendants cannot be listed.
    """
    if not reap()[1]:
        return
    _signal_all(signal.SIGTERM, main_pid)
    _signal_all(signal.SIGCONT, main_pid)  # a stopped one could not act on TERM
    terminate = time.monotonic() + GRACE_SECONDS
    give_up = terminate + KILL_SECONDS
    while reap()[1] and (now := time.monotonic()) < give_up:
        if now >= terminate:
            _signal_all(signal.SIGKILL, main_pid)
        time.sleep(0.01)
    if sys.platform != "linux":
        _signal_all(signal.SIGKILL, main_pid)


def reap() -> tuple[list[tuple[int, int]], bool]:
    """(pid, exit code) of each child that ended, negative: killed; and whether any is left."""
    ended: list[tuple[int, int]] = []
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return ended, False
        if pid == 0:
            return ended, True
        ended.append((pid, os.waitstatus_to_exitcode(status)))


def kill_marked(root: str) -> None:
    """Kill every process that still carries the sandbox's mark in its environment."""
    mark = f"{MARKER}={root}\0".encode()
    give_up = time.monotonic() + KILL_SECONDS
    while time.monotonic() < give_up:
        marked = [pid for pid in _processes() if mark in _contents(f"/proc/{pid}/environ")]
        if not marked:
            return
        for pid in marked:
            _signal(pid, signal.SIGKILL)
        time.sleep(0.02)


def remove_tree(root: bytes) -> bool:
    """Remove a directory tree; True if nothing is left.

    Folders are moved up beside each other before they are emptied: no depth is too deep, and
    a mount point (never to be emptied: it may show the host's own files) refuses to move.
    """
    complete = True
    waiting = [root]
    moved = 0
    while waiting:
        folder = waiting.pop()
        try:
            os.chmod(folder, 0o700)  # noqa: PTH101 (bytes: names need not be text)
            entries = list(os.scandir(folder))
        except OSError:
            complete = complete and not os.path.lexists(folder)  # gone already: so much the better
            continue
        for entry in entries:
            try:
                if not entry.is_dir(follow_symlinks=False):
                    os.unlink(entry.path)  # noqa: PTH108
                    continue
                moved += 1
                target = b"%s/.removed-%d-%d" % (root, os.getpid(), moved)
                _move(entry.path, target)
                waiting.append(target)
            except OSError:
                complete = False
        if folder != root:
            complete &= _removed(folder)
    return _removed(root) and complete


def _move(folder: bytes, target: bytes) -> None:
    try:
        os.rename(folder, target)  # noqa: PTH104
    except PermissionError:
        # A read-only folder. Not before trying: on a mount point chmod would reach the host's.
        os.chmod(folder, 0o700)  # noqa: PTH101
        os.rename(folder, target)  # noqa: PTH104


def _removed(folder: bytes) -> bool:
    try:
        os.rmdir(folder)  # noqa: PTH106
    except OSError:
        return not os.path.lexists(folder)
    return True


def _signal_all(number: int, main_pid: int | None) -> None:
    # Without subreapers (not Linux) the command's process group is what can be named.
    if sys.platform == "linux":
        for pid in _descendants():
            _signal(pid, number)
    elif main_pid:
        _signal(-main_pid, number)


def _signal(pid: int, number: int) -> None:
    # gone by itself, or another user's
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


def _descendants() -> list[int]:
    """Every process under this one, nearest first."""
    children: dict[int, list[int]] = {}
    for pid in _processes():
        if stat := _contents(f"/proc/{pid}/stat"):
            # "pid (name) state parent …", where the name may hold anything, brackets too
            parent = int(stat[stat.rindex(b")") + 2 :].split()[1])
            children.setdefault(parent, []).append(pid)
    found = [os.getpid()]
    for pid in found:
        found += children.get(pid, ())
    return found[1:]


def _processes() -> list[int]:
    try:
        return [int(name) for name in os.listdir("/proc") if name.isdigit()]  # noqa: PTH208
    except FileNotFoundError:
        return []


def _contents(path: str) -> bytes:
    try:
        with open(path, "rb") as file:  # noqa: PTH123 (pathlib costs the keeper start-up time)
            return file.read()
    except OSError:
        return b""
