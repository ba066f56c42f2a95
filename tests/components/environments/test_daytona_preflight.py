"""What is wrong is said before anything opens, all of it, and soon."""

import asyncio
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentcompass.components.contracts.requirements import Build, Requirements, Resources
from agentcompass.components.environments._daytona import preflight as _daytona_preflight
from tests.components.environments.daytona_places import daytona, standing_in
from tests.standins.daytona_server import DaytonaServer


@pytest.fixture
def server(tmp_path: Path) -> Iterator[DaytonaServer]:
    with standing_in(tmp_path) as server:
        yield server


def problems(*requirements: Requirements, **parameters: object) -> list[str]:
    return asyncio.run(daytona(**parameters).preflight(requirements))


def test_every_problem_is_told_once(server: DaytonaServer, tmp_path: Path) -> None:
    found = problems(
        Requirements(image="python:latest"),
        Requirements(image="python"),
        Requirements(image="python"),
        Requirements(image="ghcr.io/x/python:3.12"),
        Requirements(resources=Resources(cpus=2)),
        Requirements(build=Build(context=str(tmp_path / "nowhere"))),
        Requirements(image="python:3.12", platform="linux/arm64"),
        Requirements(env={"A": "${SURELY_UNSET}"}),
    )
    assert len(found) == 6
    for words in ("python needs a tag", "cpus can be set only", "no Dockerfile", "linux/arm64"):
        assert any(words in problem for problem in found)
    assert any("(2 tasks)" in problem for problem in found)


def test_a_snapshot_must_be_there(server: DaytonaServer) -> None:
    assert problems(Requirements(image="x"), snapshot="prepared") == []
    assert "no snapshot 'missing'" in problems(Requirements(), snapshot="missing")[0]


def test_the_key_must_be_set_and_good(
    server: DaytonaServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DAYTONA_API_KEY", "wrong")
    assert "refused the key" in problems(Requirements())[0]
    monkeypatch.delenv("DAYTONA_API_KEY")
    assert "DAYTONA_API_KEY is not set" in problems(Requirements())[0]


def test_a_key_in_a_file_of_the_current_folder_is_not_taken(
    server: DaytonaServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / ".env").write_text("DAYTONA_API_KEY=from-somewhere\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DAYTONA_API_KEY")
    assert "DAYTONA_API_KEY is not set" in problems(Requirements())[0]


@pytest.mark.parametrize("silent", [True, False])
def test_an_api_out_of_reach_is_told_within_bounds(
    server: DaytonaServer, monkeypatch: pytest.MonkeyPatch, silent: bool
) -> None:
    monkeypatch.setattr(_daytona_preflight, "REACH_SECONDS", 2.0)
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        if silent:
            listener.listen()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/api"
        started = time.monotonic()
        found = problems(Requirements(), api_url=url)
        assert time.monotonic() - started < 15
    assert len(found) == 1
    assert "cannot be reached" in found[0]
    assert url in found[0]


def test_the_sdk_is_not_imported_before_it_is_needed() -> None:
    line = (
        "import sys; from agentcompass.components.environments.daytona import COMPONENT as c; "
        "c.create(c.parameters()); print([m for m in sys.modules if m.startswith('daytona')])"
    )
    shown = subprocess.run(
        [sys.executable, "-c", line], capture_output=True, text=True, env=os.environ, check=True
    )
    assert shown.stdout == "[]\n"
