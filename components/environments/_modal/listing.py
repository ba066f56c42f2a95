"""What stands under a directory of a sandbox, and what of it a capture takes."""

import re
import stat

from agentcompass.components.contracts.sandbox import CaptureLimits

_RECORD = re.compile(rb"([0-9a-f]+) (\d+) \./(.*?)//\n", re.DOTALL)
_NAMED_AT_MOST = 200
"""Names in `left_out`; beyond them only their number."""


class Listing:
    """Reads what scripts.LIST printed; takes files by name until a limit is met."""

    def __init__(self, listed: bytes, limits: CaptureLimits) -> None:
        self._reasons: list[str] = []
        self._more = 0
        self._sizes: dict[str, int] = {}
        self._room = limits.max_bytes
        self._limits = limits
        for path, size, mode in sorted(
            (found[3], int(found[2]), int(found[1], 16)) for found in _RECORD.finditer(listed)
        ):
            self._look_at(path, size, mode)

    @property
    def chosen(self) -> list[str]:
        return list(self._sizes)

    def size(self, name: str) -> int:
        return self._sizes[name]

    def leave_out(self, name: str, reason: str) -> None:
        if len(self._reasons) < _NAMED_AT_MOST:
            self._reasons.append(f"{name.translate(_CONTROL)}: {reason}")
        else:
            self._more += 1

    def left_out(self) -> tuple[str, ...]:
        more = [f"and {self._more} more: not named"] if self._more else []
        return (*self._reasons, *more)

    def _look_at(self, path: bytes, size: int, mode: int) -> None:
        shown = path.decode("utf-8", errors="backslashreplace")
        if not stat.S_ISREG(mode):
            self.leave_out(shown, f"a {_kind(mode)}, not a regular file")
        elif path != shown.encode("utf-8"):
            self.leave_out(shown, "its name is not UTF-8")
        elif len(self._sizes) >= self._limits.max_files:
            self.leave_out(shown, f"over the limit of {self._limits.max_files} files")
        elif size > self._room:
            limit = f"over the limit of {self._limits.max_bytes} bytes in all"
            self.leave_out(shown, f"{size} bytes, {limit}")
        else:
            self._sizes[shown] = size
            self._room -= size


def _kind(mode: int) -> str:
    kinds = {stat.S_IFLNK: "link", stat.S_IFIFO: "FIFO", stat.S_IFSOCK: "socket"}
    return kinds.get(stat.S_IFMT(mode), "device")


_CONTROL = {code: f"\\x{code:02x}" for code in (*range(32), 127)}
