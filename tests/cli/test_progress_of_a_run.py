"""A real run on a terminal: what it shows while it goes, and that its progress adds up."""

import fcntl
import json
import os
import pty
import struct
import sys
import termios
from pathlib import Path

import pytest

from agentcompass.components.contracts.progress import Progress
from agentcompass.components.results.reading import read_record
from tests.cli.rendering.screen import Screen

WIDTH = 60
SCRIPT = {
    "rules": [
        {"match": r"1 \+ 1", "replies": [{"content": "#### 2", "delay_seconds": 3}]},
        {"match": r"2 \+ 2", "replies": [{"content": "#### 5"}]},
    ],
    "default": [{"error": {"code": "model.unavailable", "message": "502"}}],
}


def on_a_terminal(*words: str) -> tuple[int, str]:
    """The exit code, and everything the terminal received."""
    child, terminal = pty.fork()
    if child == 0:
        os.environ["TERM"] = "xterm"
        os.execv(sys.executable, [sys.executable, "-m", "agentcompass", *words])
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, WIDTH, 0, 0))
    received = b""
    while True:
        try:
            chunk = os.read(terminal, 65536)
        except OSError:
            break
        received += chunk
    os.close(terminal)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), received.decode("utf-8")


@pytest.mark.usefixtures("prefect_home")
def test_what_a_terminal_shows_is_what_the_files_say(
    questions: str, monkeypatch: pytest.MonkeyPatch, prefect_home: Path
) -> None:
    monkeypatch.setenv("PREFECT_HOME", str(prefect_home))
    prices = {"input": 1000, "output": 0}
    model = json.dumps({"script": SCRIPT, "prices": prices})
    words = ("run", "gsm8k", "openai_chat", "scripted", "--k", "2", "--run-name", "p")
    code, received = on_a_terminal(*words, "--model-params", model, "--benchmark-params", questions)
    assert code == 1, received
    screen = Screen(WIDTH)
    screen.receive(received)
    assert "running" in received
    text = "\n".join(screen.lines)
    (run_dir,) = Path("results/p").glob("*/*")
    progress = read_record(run_dir / "progress.json", "progress", Progress)
    assert progress is not None

    records = [
        attempt
        for path in run_dir.glob("tasks/*/detail.json")
        for attempt in json.loads(path.read_text("utf-8"))["attempts"]
    ]
    for status, counted in (("scored", progress.scored), ("unscored", progress.unscored)):
        assert sum(record["status"] == status for record in records) == counted
    assert (progress.state, progress.planned, progress.ended) == ("finished", 6, 6)
    assert (progress.running, progress.waiting, progress.pausing) == (0, 0, 0)
    assert progress.unscored_by_owner == {"model": 2}
    metrics = json.loads((run_dir / "metrics.json").read_text("utf-8"))
    assert progress.score == metrics["headline"]["value"] == pytest.approx(1 / 3)
    assert list(progress.interval95 or ()) == metrics["headline"]["interval95"]
    assert progress.usage.cost_usd == metrics["usage"]["cost_usd"]

    last = screen.lines[
        -1 - next(n for n, line in enumerate(screen.lines[::-1]) if "6/6" in line) :
    ]
    assert last[0].endswith(" 6/6 attempts done")
    assert last[1] == "score 0.333 (95 % interval 0.000 to 1.000)"
    assert last[2] == "4 scored · 2 unscored: model 2"
    assert last[3].split(" · ")[1].startswith("$")
    assert last[4].startswith("avg@2 "), "the result follows"
    assert text.count("attempts done") == 1, "nothing is left of earlier drawings"
