"""C11: a remote sandbox lives as long as its attempt may, and no longer, whoever dies."""

import asyncio
import logging
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentcompass.components.contracts.requirements import Requirements
from agentcompass.components.environments._daytona import calls as calls
from agentcompass.components.environments._daytona import opening as opening
from tests.components.environments.daytona_places import daytona, label, standing_in
from tests.standins.daytona_box import needs_sandboxes
from tests.standins.daytona_server import DaytonaServer

pytestmark = needs_sandboxes
DELETE = "DELETE /api/sandbox/{id}"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[DaytonaServer]:
    with standing_in(tmp_path) as server:
        yield server


def test_a_refused_delete_is_made_again(server: DaytonaServer) -> None:
    async def run() -> None:
        async with daytona().open(Requirements(), label()):
            server.ever[-1].refused_deletes = 2
        assert server.sandboxes == {}

    asyncio.run(run())
    assert server.made(DELETE) == 3


@pytest.mark.parametrize("status", [429, 503, 0, -1])
def test_a_delete_that_fails_in_passing_is_made_again(
    server: DaytonaServer, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """-1: it never returns."""
    monkeypatch.setattr(calls, "CALL_SECONDS", 2.0)

    async def run() -> None:
        async with daytona().open(Requirements(), label()):
            server.fail(DELETE, status, 2)
        assert server.sandboxes == {}

    asyncio.run(run())


def test_closing_waits_until_daytona_has_deleted(server: DaytonaServer) -> None:
    server.delete_seconds = 1.5

    async def run() -> None:
        async with daytona().open(Requirements(), label()):
            pass
        assert server.sandboxes == {}

    asyncio.run(run())


def test_what_cannot_be_deleted_is_named_and_can_be_removed_later(
    server: DaytonaServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(opening, "DELETE_SECONDS", 2.0)

    async def run() -> None:
        for refused in (0, 10**6, 0):
            async with daytona().open(Requirements(), label(lifetime_seconds=3600)):
                server.ever[-1].refused_deletes = refused

    started = time.monotonic()
    with caplog.at_level(logging.WARNING):
        asyncio.run(run())
    assert time.monotonic() - started < 30
    stuck = server.ever[1]
    assert list(server.sandboxes) == [stuck.id]
    assert [stuck.id in record.getMessage() for record in caplog.records] == [True]
    assert 60 < stuck.ttl_minutes < 24 * 60


def test_a_killed_clients_sandboxes_are_found_and_nobody_elses(
    server: DaytonaServer, tmp_path: Path
) -> None:
    program = textwrap.dedent("""
        import asyncio
        from agentcompass.components.contracts.requirements import Requirements
        from tests.components.environments.daytona_places import daytona, label
        async def run():
            async with daytona().open(Requirements(), label("dead")):
                print("open", flush=True)
                await asyncio.sleep(600)
        asyncio.run(run())
    """)
    root = Path(__file__).parents[2]
    with subprocess.Popen(
        [sys.executable, "-c", program],
        stdout=subprocess.PIPE,
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(root)},
    ) as client:
        assert client.stdout is not None
        assert client.stdout.readline() == b"open\n"
        dead = server.ever[0]
        assert asyncio.run(daytona().leftovers()) == ()  # it still lives
        client.send_signal(signal.SIGKILL)
    foreign = _foreign(server)

    async def run() -> None:
        provider = daytona()
        async with provider.open(Requirements(), label("alive")) as env:
            (found,) = await provider.leftovers()
            assert (found.id, found.task_id, found.kept) == (dead.id, "dead", False)
            assert found.run_id == "run-of-tests"
            assert found.created_at is not None
            assert await provider.remove_leftover(found)
            assert await provider.remove_leftover(found)  # gone already
            assert (await env.exec("echo ok")).stdout == "ok\n"
            assert await provider.leftovers() == ()

    asyncio.run(run())
    assert list(server.sandboxes) == [foreign]


def test_what_is_kept_stays_and_tells_how_to_enter(
    server: DaytonaServer, caplog: pytest.LogCaptureFixture
) -> None:
    async def run() -> None:
        provider = daytona()
        async with provider.open(Requirements(), label("kept", keep=True)) as env:
            await env.write_file("proof", b"1")
        (found,) = await provider.leftovers()
        assert found.kept
        assert f"daytona ssh {found.id}" in caplog.text
        assert server.ever[0].ttl_minutes >= 24 * 60
        assert await provider.remove_leftover(found)

    asyncio.run(run())
    assert server.sandboxes == {}


def _foreign(server: DaytonaServer) -> str:
    """Someone else's sandbox in the same account."""
    from daytona import CreateSandboxFromSnapshotParams, Daytona

    client = Daytona()
    return str(client.create(CreateSandboxFromSnapshotParams(labels={"team": "other"})).id)
