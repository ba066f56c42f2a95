"""C47: the account's limits delay sandboxes or stop them with advice; nothing is scored by them."""

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentcompass.components.contracts.errors import AgentCompassError, Code
from agentcompass.components.contracts.requirements import Requirements
from agentcompass.components.environments._daytona import opening as opening
from tests.components.environments.daytona_places import CREATE, daytona, label, standing_in
from tests.standins.daytona_box import needs_sandboxes
from tests.standins.daytona_server import DaytonaServer

pytestmark = needs_sandboxes


@pytest.fixture
def server(tmp_path: Path) -> Iterator[DaytonaServer]:
    with standing_in(tmp_path) as server:
        yield server


async def task() -> str:
    async with daytona().open(Requirements(), label()) as env:
        return (await env.exec("echo done")).stdout


def test_more_sandboxes_than_the_account_may_hold_wait_their_turn(
    server: DaytonaServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two providers, as in two processes; the rate is limited as well."""
    monkeypatch.setattr(opening, "_QUOTA_POLL_SECONDS", 0.3)
    monkeypatch.setattr(opening, "QUOTA_SECONDS", 2.0)
    server.most_alive = 4
    server.delete_seconds = 1.0
    server.fail(CREATE, 429, 5, retry_after=0.5)

    async def run() -> list[str]:
        return await asyncio.gather(*(task() for _ in range(12)))

    assert asyncio.run(run()) == ["done\n"] * 12
    assert len(server.ever) == 12
    assert server.sandboxes == {}


@pytest.mark.parametrize(
    ("message", "advice"),
    [
        ("Total disk limit exceeded. Maximum allowed: 30", "--provider-limit daytona=N"),
        ("Disk request 90 exceeds maximum allowed per sandbox (10)", "lower the task's resources"),
        ("Organization is suspended: no credits", "no credits"),
    ],
)
def test_a_quota_that_stays_stops_with_advice(
    server: DaytonaServer, monkeypatch: pytest.MonkeyPatch, message: str, advice: str
) -> None:
    monkeypatch.setattr(opening, "_QUOTA_POLL_SECONDS", 0.3)
    monkeypatch.setattr(opening, "QUOTA_SECONDS", 1.0)
    server.fail(CREATE, 403, 10**6, message=message)
    started = time.monotonic()
    with pytest.raises(AgentCompassError, match="quota|did not open") as caught:
        asyncio.run(task())
    assert time.monotonic() - started < 20
    assert caught.value.code is Code.ENVIRONMENT_START
    assert advice in str(caught.value)
    assert "\n" not in str(caught.value)
    assert server.made(CREATE) < 8
