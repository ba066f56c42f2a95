"""How long the submission's processes were ready to run and had no processor.

Runs inside the sandbox (Python 3.8 or newer, standard library only).
"""

from __future__ import annotations

import contextlib
from pathlib import Path

NANOSECONDS = 1_000_000_000


class Starvation:
    """Sums the run delay of every thread it has seen; 0 where the kernel does not tell.

    Source: /proc/<pid>/task/<tid>/schedstat, whose second number is the time spent on a run queue
    in nanoseconds (Documentation/scheduler/sched-stats.rst).
    """

    def __init__(self) -> None:
        self._waited: dict[tuple[int, str], int] = {}

    @property
    def seconds(self) -> float:
        return sum(self._waited.values()) / NANOSECONDS

    def look(self, group: int) -> None:
        """Read the threads of a process group. What ends between two looks is not counted."""
        with contextlib.suppress(OSError):
            for process in Path("/proc").iterdir():
                if process.name.isdigit() and group_of(process) == group:
                    self.look_at(process)

    def look_at(self, process: Path) -> None:
        with contextlib.suppress(OSError, ValueError, IndexError):
            for thread in (process / "task").iterdir():
                waited = (thread / "schedstat").read_text().split()[1]
                self._waited[int(process.name), thread.name] = int(waited)


def group_of(process: Path) -> int:
    """-1 if it is gone."""
    try:
        return int((process / "stat").read_text().rpartition(")")[2].split()[2])
    except (OSError, ValueError, IndexError):
        return -1
