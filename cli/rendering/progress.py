"""How far a run is, on stderr: a live display on a terminal, else plain lines, or nothing.

A display never stops a run: what goes wrong while drawing ends the drawing.
"""

import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Literal, Protocol

from agentcompass.cli.rendering.rows import Row
from agentcompass.cli.streams import complain
from agentcompass.components.contracts.progress import Progress
from agentcompass.components.results import progress_shown

Mode = Literal["auto", "plain", "none"]
Listen = Callable[[Progress], None]

PLAIN_SECONDS = 10.0


class View(Protocol):
    """What can be shown."""

    @property
    def over(self) -> bool:
        """Nothing will change any more."""
        ...

    @property
    def counts(self) -> object:
        """A plain line is written when these have changed."""
        ...

    def sentence(self) -> str: ...

    def rows(self) -> Sequence[Row]:
        """As many at any time, until it is over."""
        ...


Show = Callable[[View], None]


class RunView:
    """One run."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self.over = progress.state != "running"
        self.counts = count_key(progress)

    def sentence(self) -> str:
        return progress_shown.sentence(self._progress)

    def rows(self) -> list[Row]:
        now = self._progress
        return [
            Row(progress_shown.counts(now), share=now.ended / max(now.planned, 1)),
            Row(progress_shown.score(now)),
            Row(progress_shown.outcomes(now)),
            Row([*progress_shown.spent(now), *progress_shown.time(now)]),
        ]


def count_key(progress: Progress) -> tuple[object, ...]:
    return progress.state, progress.running, progress.scored, progress.unscored, progress.skipped


@contextmanager
def showing(mode: Mode, quiet_notes: bool) -> Iterator[tuple[Show, Callable[[str], None]]]:
    """Within this block the first function shows progress, the second single lines."""

    def note(line: str) -> None:
        if not quiet_notes:
            complain(line)

    if mode == "none":
        yield lambda view: None, note
    elif mode == "auto" and _is_terminal():
        from agentcompass.cli.rendering.live import live_display

        with live_display() as show:
            yield show, note
    else:
        plain = PlainProgress(complain)
        try:
            yield plain, note
        finally:
            plain.close()


class PlainProgress:
    """A line when something changed, at most one in PLAIN_SECONDS, and always the last state."""

    def __init__(
        self, write: Callable[[str], None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._write, self._clock = write, clock
        self._shown: object = None
        self._last: View | None = None
        self._next = 0.0

    def __call__(self, view: View) -> None:
        self._last = view
        if view.counts != self._shown and (view.over or self._clock() >= self._next):
            self._write(view.sentence())
            self._shown, self._next = view.counts, self._clock() + PLAIN_SECONDS

    def close(self) -> None:
        if self._last is not None and self._last.counts != self._shown:
            self._write(self._last.sentence())
            self._shown = self._last.counts


def _is_terminal() -> bool:
    return sys.stderr.isatty() and os.environ.get("TERM", "") not in ("", "dumb")
