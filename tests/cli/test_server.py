"""`server` speaks for the local Prefect server. Its doings are tested in tests/flows."""

import json

import pytest

from agentcompass.flows import server
from tests.cli.conftest import Cli

STATE = server.ServerState(
    url="http://127.0.0.1:4200/api",
    ui_url="http://127.0.0.1:4200",
    pid=123,
    process_started=1.0,
    started_at="2026-01-01T00:00:00+00:00",
    home="/home/me/.prefect",
)


def test_start_tells_where_the_ui_is(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "start", lambda: STATE)
    answer = cli("server", "start")
    assert answer.code == 0
    assert answer.out.startswith("running: http://127.0.0.1:4200 (pid 123")
    assert json.loads(cli("server", "start", "--json").out)["pid"] == 123


def test_a_server_that_cannot_start_is_one_line(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def start() -> server.ServerState:
        raise server.ServerProblem("no free port on 127.0.0.1")

    monkeypatch.setattr(server, "start", start)
    answer = cli("server", "start", "--json")
    assert (answer.code, answer.complaint) == (4, "no free port on 127.0.0.1")
    assert json.loads(answer.out)["exit_code"] == 4


@pytest.mark.parametrize(
    ("state", "code", "text"), [(STATE, 0, "running: http://127"), (None, 1, "not running")]
)
def test_status(
    cli: Cli,
    monkeypatch: pytest.MonkeyPatch,
    state: server.ServerState | None,
    code: int,
    text: str,
) -> None:
    monkeypatch.setattr(server, "status", lambda: state)
    answer = cli("server", "status")
    assert answer.code == code
    assert answer.out.startswith(text)
    assert json.loads(cli("server", "status", "--json").out)["running"] is (state is not None)


def test_the_address_for_a_variable_is_an_address_or_nothing(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "status", lambda: STATE)
    answer = cli("server", "status", "--url")
    assert (answer.code, answer.out, answer.err) == (0, "http://127.0.0.1:4200/api\n", "")
    monkeypatch.setattr(server, "status", lambda: None)
    answer = cli("server", "status", "--url")
    assert (answer.code, answer.out, answer.complaint) == (1, "", "not running")


@pytest.mark.parametrize(("stopped", "text"), [(True, "stopped"), (False, "not running")])
def test_stop(cli: Cli, monkeypatch: pytest.MonkeyPatch, stopped: bool, text: str) -> None:
    monkeypatch.setattr(server, "stop", lambda: stopped)
    answer = cli("server", "stop")
    assert (answer.code, answer.out) == (0, f"{text}\n")
    assert json.loads(cli("server", "stop", "--json").out) == {"stopped": stopped}
