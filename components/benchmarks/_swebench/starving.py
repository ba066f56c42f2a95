"""Whether the machine let the tests run, or kept them waiting for a processor.

Runs inside the sandbox, in the warden (Python 3.8 or newer, standard library only). Source of the
numbers: /proc/<pid>/task/<tid>/schedstat, nanoseconds on a processor and waiting for one. Sandboxes
without it (gVisor) reserve their processors; there only a machine that stood still is seen.
"""

from __future__ import annotations

import contextlib
import os

MUCH = 0.25
"""Of the time limit, lost to others."""
HARDLY = 0.5
"""Of the time limit, spent running: less than half a processor."""


def starved(root: int, limit_seconds: float, stalled_seconds: float) -> bool:
    """True: with the machine to themselves, the processes under `root` might have ended in time.

    `stalled_seconds`: how long the observer itself was not run although it wanted to.
    Processes that take the processors from each other are no excuse: they run a lot.
    """
    ran = waited = 0.0
    for pid in _under(root):
        with contextlib.suppress(OSError):
            for thread in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208
                on, off = _seconds(f"/proc/{pid}/task/{thread}/schedstat")
                ran, waited = ran + on, waited + off
    kept_waiting = waited > MUCH * limit_seconds and ran < HARDLY * limit_seconds
    return kept_waiting or stalled_seconds > MUCH * limit_seconds


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
