"""Daytona sandboxes open once and leave nothing, whatever the API does meanwhile."""

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentcompass.components.contracts.errors import AgentCompassError, Code
from agentcompass.components.contracts.requirements import Build, Network, Requirements, Resources
from agentcompass.components.environments._daytona import opening as opening
from tests.components.environments.daytona_places import (
    CREATE,
    daytona,
    label,
    standing_in,
    until,
)
from tests.standins.daytona_box import needs_sandboxes
from tests.standins.daytona_sandbox import BROKEN_BUILD
from tests.standins.daytona_server import DaytonaServer

pytestmark = needs_sandboxes


@pytest.fixture
def server(tmp_path: Path) -> Iterator[DaytonaServer]:
    with standing_in(tmp_path) as server:
        yield server


def open_once(required: Requirements = Requirements()) -> None:  # noqa: B008 (frozen)
    async def run() -> None:
        async with daytona().open(required, label()) as env:
            assert (await env.exec("echo ok")).stdout == "ok\n"

    asyncio.run(run())


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("status", [429, 500, 502, 0])
def test_a_creation_that_fails_in_passing_opens_one_sandbox(
    server: DaytonaServer, status: int, after: bool
) -> None:
    """`after`: Daytona did it, only its answer got lost."""
    server.fail(CREATE, status, 2, after=after)
    open_once()
    assert len(server.ever) == 1
    assert server.sandboxes == {}


def test_retry_after_is_kept_to(server: DaytonaServer) -> None:
    server.fail(CREATE, 429, 1, retry_after=2)
    started = time.monotonic()
    open_once()
    assert time.monotonic() - started >= 2
    assert server.made(CREATE) == 2


def test_a_creation_without_an_answer_is_found_by_its_name(
    server: DaytonaServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opening, "CREATE_SECONDS", 1.0)
    server.fail(CREATE, -1, after=True)
    open_once()
    assert len(server.ever) == 1


def test_a_slow_start_is_waited_for(server: DaytonaServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening, "CREATE_SECONDS", 0.5)
    server.start_seconds = 2
    open_once()
    assert len(server.ever) == 1
    assert server.sandboxes == {}


def test_a_start_that_never_ends_leaves_nothing(
    server: DaytonaServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opening, "CREATE_SECONDS", 0.5)
    monkeypatch.setattr("agentcompass.components.environments.daytona._START_SECONDS", 1.0)
    server.start_seconds = 1000
    with pytest.raises(AgentCompassError, match="did not start the sandbox within") as caught:
        open_once(Requirements(build_timeout_seconds=1))
    assert caught.value.code is Code.ENVIRONMENT_START
    assert server.sandboxes == {}


@pytest.mark.parametrize("answered", [True, False])
def test_cancelled_while_it_opens_it_leaves_nothing(server: DaytonaServer, answered: bool) -> None:
    server.start_seconds = 1000
    if not answered:
        server.fail(CREATE, -1, after=True)

    async def run() -> None:
        async def hold() -> None:
            async with daytona().open(Requirements(), label()):
                pass

        task = asyncio.create_task(hold())
        await until(lambda: len(server.ever) == 1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(run())
    assert server.sandboxes == {}


def test_a_failed_build_tells_its_reason_and_leaves_nothing(
    server: DaytonaServer, tmp_path: Path
) -> None:
    (tmp_path / "Dockerfile").write_text(f"FROM debian:12\nRUN {BROKEN_BUILD}\n")
    with pytest.raises(AgentCompassError, match="exit code 1") as caught:
        open_once(Requirements(build=Build(context=str(tmp_path))))
    assert caught.value.code is Code.ENVIRONMENT_START
    assert server.sandboxes == {}


def test_a_dockerfile_reaches_daytona_from_any_folder_of_its_context(
    server: DaytonaServer, tmp_path: Path
) -> None:
    (tmp_path / "images").mkdir()
    (tmp_path / "images" / "Dockerfile").write_text("FROM debian:12\nRUN true\n")
    open_once(Requirements(build=Build(context=str(tmp_path), dockerfile="images/Dockerfile")))
    assert server.ever[0].wanted["buildInfo"]["dockerfileContent"].endswith("RUN true\n")


def test_a_wrong_key_is_told(server: DaytonaServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DAYTONA_API_KEY", "wrong")
    with pytest.raises(AgentCompassError, match="refused the key in DAYTONA_API_KEY"):
        open_once()


def test_what_is_asked_of_daytona(server: DaytonaServer) -> None:
    required = Requirements(
        image="debian:12.9",
        resources=Resources(cpus=1.5, memory_mb=1500, disk_mb=5000, gpus=1),
        network=Network(baseline={"allow": ["10.1.0.0/16", "pypi.org"]}),  # type: ignore[arg-type]
        env={"SECRET": "do-not-store"},
    )

    async def run() -> None:
        async with daytona().open(required, label("a/b", lifetime_seconds=7200)) as env:
            assert (await env.exec("echo $SECRET")).stdout == "do-not-store\n"

    asyncio.run(run())
    wanted = server.ever[0].wanted
    assert (wanted["cpu"], wanted["memory"], wanted["disk"], wanted["gpu"]) == (2, 2, 5, 1)
    assert wanted["buildInfo"]["dockerfileContent"] == "FROM debian:12.9\n"
    assert wanted["networkAllowList"] == "10.1.0.0/16"
    assert wanted["domainAllowList"] == "pypi.org"
    assert wanted["autoStopInterval"] == 0  # a quiet command is not idle
    assert 120 < wanted["ttlMinutes"] < 24 * 60
    assert wanted["autoDeleteInterval"] == 0
    assert wanted["env"] == {}
    assert wanted["name"].startswith("agentcompass-")
    assert wanted["labels"]["agentcompass.task"] == "a/b"
    assert wanted["labels"]["agentcompass.run"] == "run-of-tests"


def test_a_snapshot_is_opened_by_name(server: DaytonaServer) -> None:
    async def run() -> None:
        async with daytona(snapshot="prepared").open(Requirements(image="x:1"), label()):
            pass

    asyncio.run(run())
    assert server.ever[0].wanted["snapshot"] == "prepared"
    assert "buildInfo" not in server.ever[0].wanted
