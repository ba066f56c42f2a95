"""C14, C12: one deadline, ours, whatever the API says meanwhile; over it everything is ended."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from agentcompass.components.contracts.requirements import Requirements
from agentcompass.components.contracts.sandbox import Environment
from agentcompass.components.environments._daytona import commands as commands
from tests.components.environments.daytona_places import EXECUTE, daytona, label, standing_in
from tests.standins.daytona_box import needs_sandboxes
from tests.standins.daytona_server import DaytonaServer

pytestmark = needs_sandboxes


@pytest.fixture
def server(tmp_path: Path) -> Iterator[DaytonaServer]:
    with standing_in(tmp_path) as server:
        yield server


def inside(scenario: Callable[[Environment], Awaitable[None]]) -> None:
    async def run() -> None:
        async with daytona().open(Requirements(), label()) as env:
            await scenario(env)

    asyncio.run(run())


@pytest.mark.parametrize("status", [0, 408, 504])
def test_the_deadline_holds_while_the_api_fails(server: DaytonaServer, status: int) -> None:
    async def scenario(env: Environment) -> None:
        server.fail(EXECUTE, status, 4, after=True)
        started = time.monotonic()
        result = await env.exec("echo early; sleep 30; echo late", timeout_seconds=3)
        assert 3 <= time.monotonic() - started < 20
        assert (result.exit_code, result.timed_out) == (None, True)
        assert result.stdout == "early\n"

    inside(scenario)


def test_a_silent_command_outlives_every_single_call(
    server: DaytonaServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commands, "WAIT_SECONDS", 1)

    async def scenario(env: Environment) -> None:
        result = await env.exec("sleep 5; echo passed", timeout_seconds=60)
        assert (result.exit_code, result.stdout) == (0, "passed\n")
        assert server.made(EXECUTE) >= 5

    inside(scenario)


def test_nothing_of_a_command_out_of_time_is_left(server: DaytonaServer) -> None:
    async def scenario(env: Environment) -> None:
        line = "trap '' TERM; (while :; do date >> /tmp/beat; sleep 0.2; done) & sleep 601"
        result = await env.exec(f'sh -c "{line}"', timeout_seconds=2)
        assert result.timed_out
        listed = await env.exec("ps -eo stat,args | grep -E '[s]leep 601|[b]eat|^[Z]'")
        assert listed.stdout == ""
        size = (await env.exec("wc -c /tmp/beat")).stdout
        await asyncio.sleep(1)
        assert (await env.exec("wc -c /tmp/beat")).stdout == size

    inside(scenario)
