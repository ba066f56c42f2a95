"""How the program answers whatever it is asked, and how it ends."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import agentcompass
from agentcompass.cli import run_checks
from agentcompass.components.contracts.errors import AgentCompassError, Code, PreflightRefused
from tests.cli.conftest import Cli

RUN = ("run", "gsm8k", "idle", "m")


def test_version(cli: Cli) -> None:
    answer = cli("--version")
    assert (answer.code, answer.out, answer.err) == (
        0,
        f"agentcompass {agentcompass.__version__}\n",
        "",
    )


@pytest.mark.parametrize("word", ["--help", "-h"])
def test_help_names_every_command(cli: Cli, word: str) -> None:
    answer = cli(word)
    assert answer.code == 0
    for command in ("run", "list", "config", "server"):
        assert f"\n  {command} " in answer.out


def test_no_command_at_all_shows_the_help_and_fails(cli: Cli) -> None:
    answer = cli()
    assert answer.code == 2
    assert answer.out == ""
    assert "Commands:" in answer.err


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["rnu"], "command: no command 'rnu'; did you mean 'run'?"),
        (["config", "dosc"], "config: no command 'dosc'; did you mean 'docs'?"),
        (["--verison"], "--verison: no such option; did you mean '--version'?"),
        (["list"], "family: missing; the order is {benchmark|harness|env|recipe|analyzer|"),
        (["list", "harnes"], "family: no family 'harnes'; did you mean 'harness'?"),
        (["list", "env", "--jsn"], "--jsn: no such option; did you mean '--json'?"),
        (["config", "docs", "env"], "ID: missing"),
        (["config", "docs", "benchmark", "gsm"], "benchmark: no benchmark named 'gsm'"),
    ],
)
def test_wrong_usage_is_one_line(cli: Cli, arguments: list[str], complaint: str) -> None:
    answer = cli(*arguments)
    assert answer.code == 2
    assert answer.out == ""
    assert answer.complaint.startswith(complaint)


def test_wrong_usage_is_a_document_with_json(cli: Cli) -> None:
    answer = cli(*RUN, "--k", "0", "--json")
    assert answer.code == 2
    assert json.loads(answer.out) == {
        "error": {"field": "k", "problem": "0 is too small", "hint": "it is 1 or more"},
        "exit_code": 2,
    }
    assert answer.complaint == "k: 0 is too small; it is 1 or more"


def test_every_problem_of_preflight_has_its_line(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    _raise(monkeypatch, PreflightRefused(("no disk", "no\nmodel")))
    answer = cli(*RUN, "--json")
    assert answer.code == 3
    assert answer.err == "agentcompass: no disk\nagentcompass: no model\n"
    assert json.loads(answer.out) == {
        "error": {"problems": ["no disk", "no\nmodel"]},
        "exit_code": 3,
    }


def test_a_failure_with_a_code_is_one_line(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    _raise(monkeypatch, AgentCompassError(Code.RESULTS_WRITE, "disk full"))
    answer = cli(*RUN)
    assert (answer.code, answer.complaint) == (4, "results.write: disk full")


def test_the_unexpected_is_one_line(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    _raise(monkeypatch, ZeroDivisionError("oh\nno"))
    answer = cli(*RUN)
    assert answer.code == 4
    assert answer.complaint == (
        "unexpected: ZeroDivisionError: oh no; add --log-level DEBUG for the traceback"
    )


@pytest.mark.parametrize("level", [["--log-level", "DEBUG"], ["--log-level=debug"]])
def test_the_traceback_of_the_unexpected_comes_at_debug(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, level: list[str]
) -> None:
    _raise(monkeypatch, ZeroDivisionError("oh no"))
    answer = cli(*RUN, *level)
    assert answer.code == 4
    assert "Traceback" in answer.err


@pytest.mark.parametrize(
    "spelling", [["--model-api-key", "sk-0123456789"], ["--model-api-key=sk-0123456789"]]
)
def test_a_key_in_a_library_s_message_is_masked(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, spelling: list[str]
) -> None:
    _raise(monkeypatch, ZeroDivisionError("refused: sk-0123456789"))
    answer = cli(*RUN, *spelling, "--log-level", "DEBUG", "--json")
    assert "refused: ***" in answer.err
    assert "0123456789" not in answer.err + answer.out


def test_surplus_words_are_not_repeated_when_a_key_is_given(cli: Cli) -> None:
    answer = cli(*RUN, "--model-api-key", "sk", "and-more-of-it")
    assert answer.code == 2
    assert "more-of-it" not in answer.err


def test_ctrl_c_is_130_and_no_traceback(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    _raise(monkeypatch, KeyboardInterrupt())
    answer = cli(*RUN)
    assert (answer.code, answer.complaint) == (130, "interrupted")


def test_ctrl_c_while_a_component_loads_is_130(home: Path, tmp_path: Path) -> None:
    """A real signal, in the middle of an import that takes its time."""
    slow = tmp_path / "slow"
    (slow / "slow-1.dist-info").mkdir(parents=True)
    (slow / "slow-1.dist-info" / "METADATA").write_text(
        "Name: slow\nVersion: 1\n", encoding="utf-8"
    )
    (slow / "slow-1.dist-info" / "entry_points.txt").write_text(
        "[agentcompass.benchmarks]\nslow = slow_benchmark:COMPONENT\n", encoding="utf-8"
    )
    (slow / "slow_benchmark.py").write_text(
        "import sys, time\nprint('loading', file=sys.stderr, flush=True)\ntime.sleep(60)\n",
        encoding="utf-8",
    )
    process = subprocess.Popen(
        [sys.executable, "-m", "agentcompass", "run", "slow", "idle", "m"],
        env={**os.environ, "PYTHONPATH": str(slow)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    assert process.stderr.readline() == "loading\n"
    time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (130, "", "agentcompass: interrupted\n")


def _raise(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    def check(request: object, **more: object) -> None:
        raise error

    monkeypatch.setattr(run_checks, "check", check)
