"""How far a run is, on stderr: a live display on a terminal, else plain lines, or nothing.

A display never stops a run: what goes wrong while drawing ends the drawing.
"""

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal

from agentcompass.cli.streams import complain
from agentcompass.components.contracts.progress import Progress

if TYPE_CHECKING:
    from rich.text import Text

Mode = Literal["auto", "plain", "none"]
Listen = Callable[[Progress], None]

PLAIN_SECONDS = 10.0
FRAMES_PER_SECOND = 2
BAR_CELLS = 12


@contextmanager
def showing(mode: Mode, quiet_notes: bool) -> Iterator[tuple[Listen, Callable[[str], None]]]:
    """Within this block the first function shows progress, the second single lines."""

    def note(line: str) -> None:
        if not quiet_notes:
            complain(line)

    if mode == "none":
        yield lambda progress: None, note
    elif mode == "auto" and _is_terminal():
        with _live() as listen:
            yield listen, note
    else:
        yield PlainProgress(complain), note


class PlainProgress:
    """A line when something changed, at most one in PLAIN_SECONDS, and always the last state."""

    def __init__(
        self, write: Callable[[str], None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._write, self._clock = write, clock
        self._shown: tuple[object, ...] | None = None
        self._next = 0.0

    def __call__(self, progress: Progress) -> None:
        counts = _counts(progress)
        early = progress.state == "running" and self._clock() < self._next
        if counts == self._shown or early:
            return
        self._write(sentence(progress))
        self._shown, self._next = counts, self._clock() + PLAIN_SECONDS


def sentence(progress: Progress) -> str:
    """One line: counts first, then what they have cost."""
    until = datetime.now(UTC) if progress.state == "running" else progress.updated_at
    parts = [
        f"{ended(progress)}/{progress.planned} attempts",
        clock_time((until - progress.started_at).total_seconds()),
        f"{progress.running} running",
    ]
    if progress.scored:
        parts.append(f"{progress.scored} scored, mean {progress.value_sum / progress.scored:.3f}")
    if progress.unscored:
        owners = sorted(progress.unscored_by_owner.items())
        blame = ", ".join(f"{owner} {count}" for owner, count in owners)
        parts.append(f"{progress.unscored} unscored" + (f" ({blame})" if blame else ""))
    if progress.skipped:
        parts.append(f"{progress.skipped} skipped")
    tokens = [n for n in (progress.usage.input_tokens, progress.usage.output_tokens) if n]
    if tokens:
        parts.append(f"{compact(sum(tokens))} tokens")
    if progress.usage.cost_usd is not None:
        parts.append(f"${progress.usage.cost_usd:.2f}" + "+" * progress.usage.cost_partial)
    return " · ".join(parts)


def ended(progress: Progress) -> int:
    return progress.scored + progress.unscored + progress.skipped


def compact(count: int) -> str:
    """950, 12.3k, 4.5M."""
    for size, letter in ((1_000_000_000, "G"), (1_000_000, "M"), (1_000, "k")):
        if count >= size:
            return f"{count / size:.1f}{letter}"
    return str(count)


def clock_time(seconds: float) -> str:
    """0:07, 12:34, 1:02:03."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def _counts(progress: Progress) -> tuple[object, ...]:
    return (
        progress.state,
        progress.running,
        progress.scored,
        progress.unscored,
        progress.skipped,
    )


def _is_terminal() -> bool:
    return sys.stderr.isatty() and os.environ.get("TERM", "") not in ("", "dumb")


@contextmanager
def _live() -> Iterator[Listen]:
    """One line, redrawn twice a second; other lines on stderr scroll above it."""
    from rich.console import Console
    from rich.live import Live

    console = Console(stderr=True, highlight=False)
    display = Live(console=console, refresh_per_second=FRAMES_PER_SECOND, redirect_stdout=False)
    broken = False

    def listen(progress: Progress) -> None:
        nonlocal broken
        if broken:
            return
        try:
            display.update(live_line(progress))
        except (OSError, ValueError):  # the terminal is gone; the run goes on
            broken = True

    with display:
        yield listen


def live_line(progress: Progress) -> "Text":
    """A bar and the sentence; cut at the terminal's edge."""
    from rich.text import Text

    share = ended(progress) / max(progress.planned, 1)
    full = int(share * BAR_CELLS)
    return Text.assemble(
        ("━" * full, "green"),
        ("┄" * (BAR_CELLS - full), "dim"),
        f" {sentence(progress)}",
        overflow="ellipsis",
        no_wrap=True,
    )
