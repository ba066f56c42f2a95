"""On a terminal the display is live, calm, and nothing else is torn by it."""

import fcntl
import os
import pty
import struct
import sys
import termios
import threading
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr
from pathlib import Path
from typing import TextIO

import pytest

from agentcompass.cli.rendering import live
from agentcompass.cli.rendering.live import LiveDisplay, live_display
from agentcompass.cli.rendering.progress import RunView, Show
from tests.cli.rendering import shown
from tests.cli.rendering.screen import Screen

SCRIPT = """
import sys
from datetime import UTC, datetime
from agentcompass.cli.rendering.progress import RunView, showing
from agentcompass.components.contracts.progress import Progress
now = datetime.now(UTC)
with showing("auto", quiet_notes=False) as (show, note):
    note("a note")
    show(RunView(Progress(planned=2, running=1, started_at=now, updated_at=now)))
    print("a stray line", file=sys.stderr)
    last = Progress(planned=2, scored=2, state="finished", started_at=now, updated_at=now)
    show(RunView(last))
print("the result")
"""


class Terminal:
    """A pseudo terminal: a display writes to it, and a screen receives what was written."""

    def __init__(self, width: int) -> None:
        self._master, slave = pty.openpty()
        self.file: TextIO = os.fdopen(slave, "w", encoding="utf-8")
        self.screen = Screen(width)
        self._set_width(width)

    def _set_width(self, width: int) -> None:
        fcntl.ioctl(self.file.fileno(), termios.TIOCSWINSZ, struct.pack("HHHH", 24, width, 0, 0))

    def resize(self, width: int) -> None:
        self.received()
        self._set_width(width)
        self.screen.resize(width)

    def received(self) -> str:
        """Since the last time."""
        self.file.flush()
        os.set_blocking(self._master, False)
        text = b""
        while True:
            try:
                chunk = os.read(self._master, 65536)
            except (BlockingIOError, OSError):
                break
            if not chunk:
                break
            text += chunk
        self.screen.receive(text.decode("utf-8"))
        return text.decode("utf-8")

    @property
    def lines(self) -> list[str]:
        self.received()
        return self.screen.lines

    @contextmanager
    def live(self) -> Iterator[Show]:
        """The display, with this terminal as stderr."""
        with redirect_stderr(self.file):
            with live_display() as show:
                yield show
            assert sys.stderr is self.file

    def close(self) -> None:
        self.file.close()
        os.close(self._master)


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[Terminal]:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(live, "SECONDS", 0.0)
    made = Terminal(100)
    yield made
    made.close()


def rows(state: RunView, width: int) -> list[str]:
    from agentcompass.cli.rendering.rows import drawn

    return [drawn(row, width - 1).plain for row in state.rows()]


def test_each_state_takes_the_place_of_the_one_before_and_the_last_stays(
    terminal: Terminal,
) -> None:
    with terminal.live() as show:
        for state in (shown.just_begun(), shown.huge_run(), shown.busy()):
            show(RunView(state))
            assert terminal.lines == rows(RunView(state), 100)
        show(RunView(shown.over()))
    assert terminal.lines == rows(RunView(shown.over()), 100)


def test_other_lines_go_above_it_whole_and_in_order(terminal: Terminal) -> None:
    with terminal.live() as show:
        show(RunView(shown.busy()))
        print("one\ntwo", file=sys.stderr)
        sys.stderr.write("a line ")
        show(RunView(shown.busy()))
        sys.stderr.write("in two parts\nand one without an end")
        long = "x" * 150
        print(f"\n{long}", file=sys.stderr)
        show(RunView(shown.over()))
        sys.stderr.write("the last")
    lines = ["one", "two", "a line in two parts", "and one without an end", "x" * 100, "x" * 50]
    assert terminal.lines == [*lines, "the last", *rows(RunView(shown.over()), 100)]
    print("after it", file=terminal.file)
    assert terminal.lines[-1] == "after it"


@pytest.mark.parametrize("widths", [(99,), (60,), (40,), (20,), (140,), (60, 40, 120), (30, 200)])
def test_a_resize_leaves_no_remnants_and_takes_no_other_line(
    terminal: Terminal, widths: tuple[int, ...]
) -> None:
    said = ["before"]
    with terminal.live() as show:
        print("before", file=sys.stderr)
        show(RunView(shown.busy()))
        for width in (*widths, 100):
            terminal.resize(width)
            show(RunView(shown.busy()))
            assert terminal.lines == [*said, *rows(RunView(shown.busy()), width)]
            said.append(f"at {width}")
            print(said[-1], file=sys.stderr)
        terminal.resize(50)
        print("before it is drawn", file=sys.stderr)
        terminal.resize(90)
        show(RunView(shown.busy()))
    assert terminal.lines == [*said, "before it is drawn", *rows(RunView(shown.busy()), 90)]


def test_an_exception_leaves_the_last_state_and_a_whole_stderr(terminal: Terminal) -> None:
    def interrupted() -> None:
        with terminal.live() as show:
            show(RunView(shown.busy()))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert terminal.lines == rows(RunView(shown.busy()), 100)


def test_no_more_than_two_drawings_a_second(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "SECONDS", 60.0)
    display = LiveDisplay(terminal.file)
    for _ in range(100):
        display(RunView(shown.busy()))
    assert terminal.received().count("attempts done") == 1
    display(RunView(shown.over()))
    assert terminal.received().count("attempts done") == 1, "the last is always drawn"


def test_threads_may_write_while_it_is_drawn(terminal: Terminal) -> None:
    with terminal.live() as show:
        show(RunView(shown.busy()))

        def write(name: str) -> None:
            for number in range(10):
                print(f"{name} {number}", file=sys.stderr)

        threads = [threading.Thread(target=write, args=(name,)) for name in "ab"]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    lines = terminal.lines
    assert lines[-4:] == rows(RunView(shown.busy()), 100)
    assert sorted(lines[:-4]) == sorted(f"{name} {n}" for name in "ab" for n in range(10))


def test_a_terminal_that_goes_away_stops_nothing(terminal: Terminal) -> None:
    with terminal.live() as show:
        show(RunView(shown.busy()))
        terminal.file.close()
        show(RunView(shown.over()))
        print("nobody reads this", file=sys.stderr)


def on_a_terminal(home: Path, **environment: str) -> str:
    """What a terminal receives."""
    child, terminal = pty.fork()
    if child == 0:
        os.environ.update(environment)
        os.execv(sys.executable, [sys.executable, "-c", SCRIPT])
    received = b""
    while True:
        try:
            chunk = os.read(terminal, 65536)
        except OSError:
            break
        if not chunk:
            break
        received += chunk
    os.close(terminal)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    return received.decode("utf-8")


def test_a_program_on_a_terminal_ends_with_its_result(home: Path) -> None:
    received = on_a_terminal(home, TERM="xterm")
    assert "\x1b[32m" in received, "the bar is green"
    assert "\x1b[?" not in received, "no mode is set that would outlast a killed program"
    screen = Screen(80)
    screen.receive(received)
    assert screen.lines[:2] == ["a note", "a stray line"]
    assert screen.lines[2].endswith("2/2 attempts done")
    assert screen.lines[-1] == "the result"
    assert len(screen.lines) == 7


def test_no_colour_is_respected(home: Path) -> None:
    received = on_a_terminal(home, TERM="xterm", NO_COLOR="1")
    assert "2/2 attempts" in received
    assert "\x1b[32m" not in received


@pytest.mark.parametrize("term", ["dumb", ""])
def test_a_dumb_terminal_gets_plain_lines(home: Path, term: str) -> None:
    received = on_a_terminal(home, TERM=term)
    assert "\x1b" not in received
    assert "2/2 attempts" in received
