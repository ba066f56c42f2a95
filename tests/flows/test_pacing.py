"""The pace of openings against a real server, over processes and when the server is away."""

import asyncio
import logging
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from agentcompass.flows import server
from tests.flows.limit_users import User, connected, most_in_a_second

pytestmark = pytest.mark.usefixtures("prefect_home")

NOBODY = "http://127.0.0.1:1/api"


@pytest.fixture
def url(prefect_home: Path) -> Iterator[str]:
    running = server.start()
    with connected(running.url):
        yield running.url


async def openings(pace: object, count: int) -> list[float]:
    from agentcompass.flows.pacing import OpeningPace

    assert isinstance(pace, OpeningPace)
    times: list[float] = []

    async def open_one() -> None:
        await pace.turn()
        times.append(time.monotonic())

    await asyncio.gather(*(open_one() for _ in range(count)))
    return times


def test_two_processes_keep_one_pace_without_bursts(url: str, tmp_path: Path) -> None:
    logs = [tmp_path / "first", tmp_path / "second"]
    users = [User.start("pace", "two", 5, 15, log=log) for log in logs]
    for user in users:
        user.finish()
        assert len(user.times("turn")) == 15
    turns = sorted(at for user in users for at in user.times("turn"))
    assert turns[-1] - turns[0] > 5.3  # 29 intervals of 0.2 s are 5.8
    both_since = max(user.times("ready")[0] for user in users)
    assert turns[-1] - max(both_since, turns[0]) < 10
    assert most_in_a_second(turns) <= 8


def test_a_fast_pace_takes_several_turns_in_one_request(url: str) -> None:
    from agentcompass.flows.pacing import OpeningPace

    async def use() -> list[float]:
        async with OpeningPace("fast", 50) as pace:
            return await openings(pace, 100)

    times = asyncio.run(use())
    assert 1.7 < times[-1] - times[0] < 5  # 2 s without load
    assert most_in_a_second(times) <= 75


def test_the_last_run_that_names_a_pace_sets_it_for_all(url: str) -> None:
    from agentcompass.flows.pacing import OpeningPace

    async def use() -> float:
        async with OpeningPace("changed", 0.1) as slow:
            await slow.turn()
            async with OpeningPace("changed", 20):
                pass
            started = time.monotonic()
            await openings(slow, 5)
            return time.monotonic() - started

    assert asyncio.run(use()) < 9  # not the 50 s of the first pace
    limit = httpx.get(f"{url}/v2/concurrency_limits/env-open:changed", timeout=30).json()
    assert limit["slot_decay_per_second"] == 20 * 100


def test_a_pace_that_nobody_named_replaces_none(url: str) -> None:
    from agentcompass.flows.pacing import OpeningPace

    async def use() -> list[float]:
        async with (
            OpeningPace("named", 4) as slow,
            OpeningPace("named", 100, named=False),
        ):
            return await openings(slow, 5)

    turns = asyncio.run(use())
    assert turns[-1] - turns[0] > 0.9  # four intervals of 0.25 s


def test_who_no_longer_waits_costs_the_others_nothing(url: str) -> None:
    from agentcompass.flows.pacing import OpeningPace

    async def use() -> float:
        async with OpeningPace("cancelled", 2) as pace:
            await pace.turn()
            leaving = [asyncio.create_task(pace.turn()) for _ in range(20)]
            staying = asyncio.create_task(pace.turn())
            await asyncio.sleep(0.1)
            for task in leaving:
                task.cancel()
            started = time.monotonic()
            await staying
            return time.monotonic() - started

    assert asyncio.run(use()) < 3  # at 2/s, twenty others would be 10 s


def test_no_pace_asks_nobody() -> None:
    from agentcompass.flows.pacing import OpeningPace

    async def use() -> list[float]:
        async with OpeningPace("none", 0) as pace:
            return await openings(pace, 1000)

    with connected(NOBODY):
        times = asyncio.run(use())
    assert times[-1] - times[0] < 1


def test_without_an_api_the_pace_is_kept_in_the_process(caplog: pytest.LogCaptureFixture) -> None:
    from agentcompass.flows.pacing import OpeningPace

    caplog.set_level(logging.INFO, logger="agentcompass.flows.pacing")

    async def use() -> list[float]:
        async with OpeningPace("alone", 10) as pace:
            return await openings(pace, 20)

    with connected(NOBODY):
        times = asyncio.run(use())
    assert 1.8 < times[-1] - times[0] < 4  # 19 intervals of 0.1 s
    assert [r.levelname for r in caplog.records] == ["WARNING"]
