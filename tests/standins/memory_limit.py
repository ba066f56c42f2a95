"""A memory limit for a stand-in's sandbox: a control group of its own, of either version."""

import contextlib
import secrets
import time
from collections.abc import Sequence
from pathlib import Path

_ROOT = Path("/sys/fs/cgroup")


class MemoryLimit:
    """Raises OSError where control groups cannot be made."""

    def __init__(self, megabytes: int) -> None:
        size = str(megabytes * 2**20)
        name = f"agentcompass-standin-{secrets.token_hex(6)}"
        if (_ROOT / "memory/memory.limit_in_bytes").exists():
            self._group, self._seen_as = _ROOT / "memory" / name, "/sys/fs/cgroup/memory"
            settings = {"memory.limit_in_bytes": size, "memory.memsw.limit_in_bytes": size}
        else:
            with contextlib.suppress(OSError):
                (_ROOT / "cgroup.subtree_control").write_text("+memory")
            self._group, self._seen_as = _ROOT / name, "/sys/fs/cgroup"
            settings = {"memory.max": size, "memory.swap.max": "0"}
        self._group.mkdir()
        for setting, value in settings.items():
            if setting in ("memory.limit_in_bytes", "memory.max"):
                (self._group / setting).write_text(value)
            else:  # not every kernel counts swap
                with contextlib.suppress(OSError):
                    (self._group / setting).write_text(value)

    @property
    def mounts(self) -> list[str]:
        """For bubblewrap: the group as a container sees its own."""
        return ["--ro-bind", str(self._group), self._seen_as]

    def around(self, argv: Sequence[str]) -> list[str]:
        """The command, run within the limit."""
        join = 'echo $$ > "$0" && exec "$@"'
        return ["/bin/sh", "-c", join, str(self._group / "cgroup.procs"), *argv]

    def remove(self) -> None:
        """Works once its last process is gone."""
        deadline = time.monotonic() + 5
        while self._group.exists() and time.monotonic() < deadline:
            with contextlib.suppress(OSError):
                self._group.rmdir()
                return
            time.sleep(0.02)


def works() -> bool:
    try:
        limit = MemoryLimit(16)
    except OSError:
        return False
    limit.remove()
    return True
