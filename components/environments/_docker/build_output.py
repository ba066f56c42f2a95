"""What a build says: every line to the debug log, steps to whoever watches, the end to errors."""

import logging
import re
from collections import deque
from collections.abc import Callable
from typing import Any

_LAST_LINES = 8
_LONGEST_TAIL = 600
_STEP = re.compile(r"Step \d+/\d+ :")
_COLOURS = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_OWN = re.compile(r"(Step \d+/\d+ :| ---> |Removing intermediate container )")

_log = logging.getLogger(__name__)


class BuildOutput:
    """`see` runs in the thread that reads, `tell` in the event loop's."""

    def __init__(self, name: str, note: Callable[[str], None]) -> None:
        self.note = note
        self._name = name
        self._open = ""
        self._last: deque[str] = deque(maxlen=_LAST_LINES)
        self._steps: deque[str] = deque()

    def see(self, event: dict[str, Any]) -> None:
        text = str(event.get("stream") or event.get("status") or "")
        *whole, self._open = re.split(r"[\r\n]+", self._open + _COLOURS.sub("", text))
        for line in whole:
            self._line(line)

    def tell(self) -> None:
        while self._steps:
            self.note(f"building {self._name}: {self._steps.popleft()}")

    def tail(self) -> str:
        """The last lines of what its commands said, in one."""
        lines = [*self._last, *([self._open.strip()] if self._open.strip() else [])]
        text = " | ".join(lines[-_LAST_LINES:])
        if len(text) > _LONGEST_TAIL:
            text = f"…{text[-_LONGEST_TAIL:]}"
        return f"; it said last: {text}" if text else ""

    def _line(self, line: str) -> None:
        line = line.rstrip()
        if not line:
            return
        _log.debug("building %s: %s", self._name, line)
        if _STEP.match(line) and "LABEL agentcompass." not in line:
            self._steps.append(line)
        if not _OWN.match(line):
            self._last.append(line)
