"""A few rows at the bottom of the terminal, drawn over themselves; other lines go above them.

Written here and not by rich.live: that loses its place when the terminal becomes narrower, and
hides the cursor, which stays hidden if the process is killed. Rich makes the rows' text.
"""

import contextlib
import io
import os
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TextIO

from agentcompass.cli.rendering.rows import drawn

if TYPE_CHECKING:
    from rich.text import Text

    from agentcompass.cli.rendering.progress import Show, View

SECONDS = 0.45
"""At least so long between two drawings: no more than two a second are of use to an eye."""
USUAL_SIZE = (80, 24)


@contextmanager
def live_display() -> "Iterator[Show]":
    """Within this block stderr is shared: whatever is written there appears above the rows."""
    terminal = sys.stderr
    display = LiveDisplay(terminal)
    above = _Above(terminal, display)
    sys.stderr = above
    try:
        yield display
    finally:
        sys.stderr = terminal
        above.end()
        display.close()


class LiveDisplay:
    """The rows. May be used from several threads."""

    def __init__(self, terminal: TextIO) -> None:
        self._terminal = terminal
        self._lock = threading.RLock()
        self._view: View | None = None
        self._lines: list[str] = []
        """On the terminal now, the cursor under them at the left."""
        self._cells: list[int] = []
        """How wide they are."""
        self._width = 0
        """Of the terminal, when they were made."""
        self._drawn_at = 0.0
        self._broken = False

    def __call__(self, view: "View") -> None:
        with self._lock:
            self._view = view
            if view.over or time.monotonic() >= self._drawn_at + SECONDS:
                self._draw()

    def close(self) -> None:
        """The last state stays."""
        with self._lock:
            if self._view is not None:
                self._draw()

    def write_above(self, text: str) -> None:
        """Whole lines."""
        with self._lock:
            self._write(self._erased() + text + "".join(f"{line}\n" for line in self._lines))

    def _draw(self) -> None:
        if self._view is None or self._broken:
            return
        width, height = _size(self._terminal)
        resized = width != self._width
        back = self._erased() if resized else f"\r\x1b[{len(self._lines)}A"
        texts = [drawn(row, width - 1) for row in self._view.rows()][: max(height - 1, 1)]
        self._lines = _coloured(texts, width)
        self._cells = [text.cell_len for text in texts]
        self._width = width
        # One write a frame, and each line cleared behind its end only: nothing flickers.
        self._write(back + "".join(f"{line}\x1b[K\n" for line in self._lines) + "\x1b[J")
        self._drawn_at = time.monotonic()

    def _erased(self) -> str:
        """To the first row, line by line. A terminal that became narrower has wrapped the rows
        that no longer fit; erased as a whole, a line is not joined with the next when it becomes
        wider again."""
        width, _ = _size(self._terminal)
        up = sum(max(-(-cells // width), 1) for cells in self._cells)
        return "\r" + "\x1b[1A\x1b[2K" * up

    def _write(self, text: str) -> None:
        if self._broken:
            return
        try:
            self._terminal.write(text)
            self._terminal.flush()
        except (OSError, ValueError):  # the terminal is gone; the run goes on
            self._broken = True


class _Above(io.TextIOBase):
    """Stands for sys.stderr: passes on whole lines, and all else it can do is the terminal's."""

    def __init__(self, terminal: TextIO, display: LiveDisplay) -> None:
        self._terminal, self._display = terminal, display
        self._lock = threading.Lock()
        self._begun = ""

    def write(self, text: str) -> int:
        with self._lock:
            whole, newline, self._begun = (self._begun + text).rpartition("\n")
        if newline:
            self._display.write_above(whole + newline)
        return len(text)

    def end(self) -> None:
        if self._begun:
            self._display.write_above(self._begun + "\n")

    def flush(self) -> None:
        with contextlib.suppress(OSError, ValueError):
            self._terminal.flush()

    def isatty(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._terminal.fileno()

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self._terminal.encoding

    @property
    def buffer(self) -> Any:
        return self._terminal.buffer


def _coloured(texts: "Sequence[Text]", width: int) -> list[str]:
    """A line each, with colours if the terminal has them and NO_COLOR is unset."""
    from rich.console import Console

    lines = io.StringIO()
    console = Console(file=lines, force_terminal=True, highlight=False, width=width)
    for text in texts:
        console.print(text)
    return lines.getvalue().splitlines()


def _size(terminal: TextIO) -> tuple[int, int]:
    """Columns and lines. Of this terminal: $COLUMNS does not follow a window."""
    try:
        width, height = os.get_terminal_size(terminal.fileno())
    except (OSError, ValueError):
        width = height = 0
    return width or USUAL_SIZE[0], height or USUAL_SIZE[1]
