"""Output survives odd locales, closed pipes and full disks."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Cli

ASCII_ONLY = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONIOENCODING": "ascii", "TERM": "dumb"}
COMMAND = f"{sys.executable} -m agentcompass"


def shell(line: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-c", f"set -o pipefail; {line}"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_an_ascii_locale_breaks_no_emoji(cli_process: Cli) -> None:
    answer = cli_process("run", "🙂漢字", "idle", "m", "--json", env=ASCII_ONLY)
    assert answer.code == 2
    assert "🙂漢字" in json.loads(answer.out)["error"]["problem"]
    assert "🙂漢字" in answer.err


def test_bytes_that_are_no_text_are_refused(home: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "agentcompass", "run", b"gsm8k", b"idle", b"m\xff", b"--json"],
        capture_output=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr.decode("utf-8").startswith("agentcompass: MODEL: ")
    json.loads(done.stdout.decode("utf-8"))


@pytest.mark.parametrize("buffered", ["", "1"])
@pytest.mark.parametrize("command", ["list harness", "run --help", "config docs benchmark gsm8k"])
def test_a_reader_that_goes_away_is_no_error(home: Path, command: str, buffered: str) -> None:
    done = shell(f"PYTHONUNBUFFERED={buffered} {COMMAND} {command} | true")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("reader", ["", "| cat"])
def test_another_pipe_that_breaks_is_an_error(home: Path, reader: str) -> None:
    """As where an engine or a server hangs up in the middle of a run."""
    program = (
        "import errno, sys; from agentcompass.cli import main, program\n"
        "def broken(arguments): raise BrokenPipeError(errno.EPIPE, 'Broken pipe')\n"
        "program.carry_out = broken; sys.exit(main.answer(['run']))"
    )
    done = shell(f'{sys.executable} -c "{program}" {reader}')
    assert done.returncode == 4
    assert done.stderr.startswith("agentcompass: unexpected: BrokenPipeError: ")


def test_closed_streams_are_no_error(home: Path) -> None:
    assert shell(f"{COMMAND} list harness >&-").returncode == 0
    assert shell(f"{COMMAND} list nope 2>&-").returncode == 2


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("buffered", ["", "1"])
def test_a_full_disk_behind_stdout_is_told(home: Path, buffered: str) -> None:
    done = shell(f"PYTHONUNBUFFERED={buffered} {COMMAND} list harness > /dev/full")
    assert done.returncode == 4
    assert done.stderr.startswith("agentcompass: the output could not be written: ")
    assert done.stderr.count("\n") == 1


def test_a_full_disk_behind_stderr_changes_no_exit_code(home: Path) -> None:
    if Path("/dev/full").exists():
        assert shell(f"{COMMAND} list nope 2> /dev/full").returncode == 2


def test_nothing_is_coloured_in_a_pipe(cli_process: Cli) -> None:
    env = {"TERM": "xterm-256color"}
    os.environ.pop("FORCE_COLOR", None)
    for command in (["--help"], ["run", "--help"], ["config", "docs", "harness", "tool_agent"]):
        answer = cli_process(*command, env=env)
        assert answer.code == 0
        assert "\x1b" not in answer.out + answer.err
        assert "\r" not in answer.out + answer.err
