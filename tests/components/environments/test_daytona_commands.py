"""A command in a Daytona sandbox runs once, and its end arrives, whatever becomes of the calls."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from agentcompass.components.contracts.errors import AgentCompassError, Code
from agentcompass.components.contracts.requirements import Requirements
from agentcompass.components.contracts.sandbox import Environment
from agentcompass.components.environments._daytona import calls as calls
from agentcompass.components.environments._daytona import commands as commands
from tests.components.environments.daytona_places import EXECUTE, daytona, label, standing_in, until
from tests.standins.daytona_box import needs_sandboxes
from tests.standins.daytona_server import DaytonaServer

pytestmark = needs_sandboxes


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaytonaServer]:
    with standing_in(tmp_path_factory.mktemp("daytona")) as server:
        yield server


@pytest.fixture
def server(place: DaytonaServer) -> DaytonaServer:
    place.calls.clear()
    return place


def inside(scenario: Callable[[Environment], Awaitable[None]], **changes: object) -> None:
    async def run() -> None:
        required = Requirements.model_validate(changes)
        async with daytona().open(required, label()) as env:
            await scenario(env)

    asyncio.run(run())


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("status", [429, 408, 502, 0])
def test_a_call_that_fails_in_passing_runs_the_command_once(
    server: DaytonaServer, status: int, after: bool
) -> None:
    async def scenario(env: Environment) -> None:
        server.fail(EXECUTE, status, 2, after=after)
        result = await env.exec("echo x >> ran; cat ran; exit 5")
        assert (result.exit_code, result.stdout) == (5, "x\n")
        assert server.made(EXECUTE) >= 4

    inside(scenario)


def test_a_call_that_never_returns_is_cut_and_its_command_is_not_run_again(
    server: DaytonaServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(env: Environment) -> None:
        monkeypatch.setattr(calls, "CALL_SECONDS", 1.0)
        monkeypatch.setattr(commands, "WAIT_SECONDS", -18)
        server.fail(EXECUTE, -1, after=True)
        result = await env.exec("echo x >> ran; cat ran")
        assert result.stdout == "x\n"

    inside(scenario)


def test_a_call_that_was_given_up_and_arrives_late_runs_nothing_again(
    server: DaytonaServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(env: Environment) -> None:
        monkeypatch.setattr(calls, "CALL_SECONDS", 1.0)
        monkeypatch.setattr(commands, "WAIT_SECONDS", -18)
        server.fail(EXECUTE, 0, late=8)
        started = time.monotonic()
        assert (await env.exec("echo x >> ran; cat ran")).stdout == "x\n"
        assert time.monotonic() - started < 8
        await env.exec("true")  # what is read may be forgotten inside
        await asyncio.sleep(max(0.0, started + 9.5 - time.monotonic()))
        assert (await env.exec("cat ran")).stdout == "x\n"

    inside(scenario)


def test_a_transfer_that_never_returns_is_cut_and_made_again(
    server: DaytonaServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(env: Environment) -> None:
        monkeypatch.setattr(calls, "CALL_SECONDS", 1.0)
        for call in (".*bulk-upload", ".*bulk-download"):
            server.fail(call, -1)
        await env.write_file("data", b"x" * 200_000)
        assert await env.read_file("data") == b"x" * 200_000

    inside(scenario)


def test_the_connection_is_lost_in_the_middle_of_a_command(server: DaytonaServer) -> None:
    async def scenario(env: Environment) -> None:
        running = asyncio.create_task(env.exec("echo x >> ran; sleep 3; cat ran; exit 7"))
        await asyncio.sleep(0.7)
        server.cut_connections()
        result = await running
        assert (result.exit_code, result.stdout) == (7, "x\n")

    inside(scenario)


def test_large_output_and_input_survive_failing_transfers(server: DaytonaServer) -> None:
    async def scenario(env: Environment) -> None:
        server.fail(".*bulk-upload", 429, 1)
        server.fail(".*bulk-upload", 0, 1)
        server.fail(".*bulk-download", 502, 1)
        server.fail(".*bulk-download", 429, 1, retry_after=0.1)
        result = await env.exec("cat; echo end >&2", stdin=b"0123456789" * 20_000)
        assert result.stdout == "0123456789" * 20_000
        assert result.stderr == "end\n"

    inside(scenario)


@pytest.mark.parametrize("how", ["stopped", "gone"])
def test_a_sandbox_that_goes_away_is_lost(
    server: DaytonaServer, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calls, "PATIENCE_SECONDS", 3.0)

    async def scenario(env: Environment) -> None:
        running = asyncio.create_task(env.exec("sleep 60"))
        await asyncio.sleep(0.7)
        sandbox = server.ever[-1]
        if how == "stopped":
            sandbox.stop()
        else:
            sandbox.destroy()
            del server.sandboxes[sandbox.id]
        with pytest.raises(AgentCompassError, match=how) as caught:
            await running
        assert caught.value.code is Code.ENVIRONMENT_LOST
        for use in (env.read_file("x"), env.write_file("x", b""), env.capture(".")):
            with pytest.raises(AgentCompassError) as caught:
                await use
            assert caught.value.code is Code.ENVIRONMENT_LOST

    inside(scenario)


def test_someone_inside_kills_our_runner(server: DaytonaServer) -> None:
    async def scenario(env: Environment) -> None:
        line = "echo before; kill -9 $(cat /var/tmp/.agentcompass-*/*/pid); sleep 30"
        result = await env.exec(line)
        assert result.exit_code == 137
        assert result.stdout == "before\n"
        assert (await env.exec("echo still here")).stdout == "still here\n"

    inside(scenario)


def test_finished_commands_leave_no_files_behind(server: DaytonaServer) -> None:
    async def scenario(env: Environment) -> None:
        for _ in range(5):
            await env.exec("seq 100000", stdin=b"x" * 100_000)
        left = await env.exec("du -s -k /var/tmp/.agentcompass-*; ls /var/tmp/.agentcompass-*")
        assert int(left.stdout.split()[0]) < 1000
        assert len(left.stdout.splitlines()) < 8

    inside(scenario)


def test_another_user_owns_what_is_written_for_it(server: DaytonaServer) -> None:
    async def scenario(env: Environment) -> None:
        assert (await env.exec("id -un; echo $USER")).stdout == "daemon\ndaemon\n"
        await env.write_file("a", b"1")
        await env.write_file("b", b"2" * 100_000)
        assert (await env.exec("stat -c %U . a b")).stdout == "daemon\n" * 3
        assert (await env.exec("id -un", user="root")).stdout == "root\n"

    inside(scenario, user="daemon", workdir="/home/daytona/work")
    assert server.ever[-1].wanted["user"] == "root"


def test_a_sandbox_that_is_not_roots_cannot_serve_other_users(server: DaytonaServer) -> None:
    async def scenario(env: Environment) -> None:
        assert (await env.exec("id -un")).stdout == "daemon\n"
        await env.write_file("a", b"1" * 100_000)
        assert (await env.exec("stat -c %U a")).stdout == "daemon\n"
        with pytest.raises(AgentCompassError, match="cannot become 'root'"):
            await env.exec("true", user="root")

    server.image_user = "daemon"
    try:
        inside(scenario)
    finally:
        server.image_user = "root"


def test_root_runs_commands_as_anyone_who_exists(server: DaytonaServer) -> None:
    async def scenario(env: Environment) -> None:
        shown = await env.exec("id -un; id -G; echo $HOME $A", user="daemon", env={"A": "a b"})
        assert shown.stdout == "daemon\n1\n/usr/sbin a b\n"
        with pytest.raises(AgentCompassError, match="no user 'nobody-here'"):
            await env.exec("true", user="nobody-here")

    inside(scenario)


def test_a_folder_is_uploaded_with_its_modes_and_links(
    server: DaytonaServer, tmp_path: Path
) -> None:
    source = tmp_path / "source"
    (source / "deep").mkdir(parents=True)
    (source / "run.sh").write_bytes(b"#!/bin/sh\necho ran\n")
    (source / "run.sh").chmod(0o750)
    (source / "deep/große datei").write_bytes(b"x" * 3_000_000)
    (source / "link").symlink_to("deep/nowhere")

    async def scenario(env: Environment) -> None:
        await env.exec("mkdir -p into/deep; echo kept > into/deep/kept")
        await env.upload(source, "into")
        assert (await env.exec(["into/run.sh"])).stdout == "ran\n"
        shown = await env.exec("stat -c %a into/run.sh; readlink into/link; cat into/deep/kept")
        assert shown.stdout == "750\ndeep/nowhere\nkept\n"
        assert await env.read_file("into/deep/große datei") == b"x" * 3_000_000
        with pytest.raises(ValueError, match="larger"):
            await env.read_file("into/deep/große datei", max_bytes=2_999_999)
        await env.upload(source / "run.sh", "other/place/it.sh")
        assert (await env.exec("other/place/it.sh")).stdout == "ran\n"
        with pytest.raises(IsADirectoryError):
            await env.upload(source / "run.sh", "into")
        with pytest.raises(FileNotFoundError):
            await env.upload(source / "missing", "x")

    inside(scenario)


def test_closing_ends_a_command_under_way_and_is_bounded(server: DaytonaServer) -> None:
    async def run() -> None:
        async with daytona().open(Requirements(), label()) as env:
            running = asyncio.create_task(env.exec("sleep 600"))
            await asyncio.sleep(0.5)
            started = time.monotonic()
        assert time.monotonic() - started < 20
        running.cancel()
        await asyncio.wait([running], timeout=20)
        assert running.done()
        await until(lambda: server.sandboxes == {})

    asyncio.run(run())
