"""On a terminal the display is live, and nothing else is torn by it."""

import os
import pty
import sys
from pathlib import Path

import pytest

SCRIPT = """
import sys
from datetime import UTC, datetime
from agentcompass.cli.rendering.progress import showing
from agentcompass.components.contracts.progress import Progress
now = datetime.now(UTC)
with showing("auto", quiet_notes=False) as (listen, note):
    note("a note")
    listen(Progress(planned=2, running=1, started_at=now, updated_at=now))
    print("a stray line", file=sys.stderr)
    listen(Progress(planned=2, scored=2, state="finished", started_at=now, updated_at=now))
print("the result")
"""


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


def test_lines_scroll_above_the_live_line(home: Path) -> None:
    shown = on_a_terminal(home, TERM="xterm")
    assert "\x1b[2K" in shown
    assert "a note\r\n" in shown
    assert "a stray line\r\n" in shown
    assert shown.index("2/2 attempts") < shown.index("the result")
    assert shown.endswith("the result\r\n")


def test_no_colour_is_respected(home: Path) -> None:
    shown = on_a_terminal(home, TERM="xterm", NO_COLOR="1")
    assert "2/2 attempts" in shown
    assert "\x1b[32m" not in shown


@pytest.mark.parametrize("term", ["dumb", ""])
def test_a_dumb_terminal_gets_plain_lines(home: Path, term: str) -> None:
    shown = on_a_terminal(home, TERM=term)
    assert "\x1b" not in shown
    assert "2/2 attempts" in shown
