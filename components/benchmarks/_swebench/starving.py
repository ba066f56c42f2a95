"""How much of their time the tests lost to others on a crowded machine.

Runs inside the sandbox, in the warden (Python 3.8 or newer, standard library only). Source of the
numbers: /proc/<pid>/task/<tid>/schedstat, nanoseconds on a processor and waiting for one. Where the
kernel does not tell (gVisor, which reserves processors), nothing is lost.
"""

from __future__ import annotations

import contextlib
import os


def lost_seconds(root: int, elapsed_seconds: float) -> float:
    """For the processes under `root`, running or waiting since `elapsed_seconds`.

    Processes that take the processors from each other have lost nothing: together they ran.
    """
    ran = waited = 0.0
    for pid in _under(root):
        with contextlib.suppress(OSError):
            for thread in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208
                on, off = _seconds(f"/proc/{pid}/task/{thread}/schedstat")
                ran, waited = ran + on, waited + off
    return min(waited, max(0.0, elapsed_seconds - ran))


def _under(root: int) -> list[int]:
    """Its children, their children, and so on."""
    children: dict[int, list[int]] = {}
    for name in filter(str.isdigit, os.listdir("/proc")):  # noqa: PTH208
        with contextlib.suppress(OSError, IndexError, ValueError):
            children.setdefault(_parent(name), []).append(int(name))
    found, pending = [], [root]
    while pending:
        below = children.get(pending.pop(), [])
        found += below
        pending += below
    return found


def _parent(pid: str) -> int:
    with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123
        return int(file.read().rpartition(b")")[2].split()[1])


def _seconds(path: str) -> tuple[float, float]:
    try:
        with open(path, encoding="ascii") as file:  # noqa: PTH123
            on, off = file.read().split()[:2]
            return int(on) / 1e9, int(off) / 1e9
    except (OSError, ValueError):
        return 0.0, 0.0
