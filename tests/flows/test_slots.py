"""Provider slots against a real server: in this process, and by processes as runs are."""

import asyncio
import json
import logging
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest

from agentcompass.flows import server
from tests.flows.limit_users import User, connected, mean_alive, most_alive, until

pytestmark = pytest.mark.usefixtures("prefect_home")


@pytest.fixture
def url(prefect_home: Path) -> Iterator[str]:
    running = server.start()
    with connected(running.url):
        yield running.url


def limit_at(url: str, provider: str) -> dict[str, Any]:
    path = f"{url}/v2/concurrency_limits/tag:provider:{provider}"
    return dict(httpx.get(path, timeout=30).raise_for_status().json())


def change(url: str, provider: str, **fields: object) -> None:
    path = f"{url}/v2/concurrency_limits/tag:provider:{provider}"
    httpx.patch(path, json=fields, timeout=30).raise_for_status()


async def soon(condition: Callable[[], bool], within_seconds: float = 20) -> None:
    async with asyncio.timeout(within_seconds):
        while not condition():
            await asyncio.sleep(0.05)


class Attempts:
    """Attempts of this process that hold slots until they are told to end."""

    def __init__(self, slots: Any) -> None:
        self._slots = slots
        self._ends: list[asyncio.Event] = []
        self._tasks: list[asyncio.Task[None]] = []
        self.alive = 0

    def begin(self, count: int) -> None:
        for _ in range(count):
            end = asyncio.Event()
            self._ends.append(end)
            self._tasks.append(asyncio.create_task(self._attempt(end)))

    async def end(self, count: int | None = None) -> None:
        """End that many of those that began first; all by default."""
        ending = slice(0, count)
        for end in self._ends[ending]:
            end.set()
        await asyncio.gather(*self._tasks[ending])
        del self._ends[ending], self._tasks[ending]

    async def _attempt(self, end: asyncio.Event) -> None:
        async with self._slots.held():
            self.alive += 1
            await end.wait()
            self.alive -= 1


def test_two_processes_share_the_limit_fairly_and_use_all_of_it(url: str, tmp_path: Path) -> None:
    first = User.start("slots", "shared", 4, 16, 90, 0.3, log=tmp_path / "first")
    until(lambda: first.busy == 4, 60)
    second = User.start("slots", "shared", 4, 16, 40, 0.3, log=tmp_path / "second")
    for user in (first, second):
        user.finish()
        assert len(user.times("end")) == len(user.times("begin")) >= 40
    assert most_alive([first, second]) == 4
    both_since = second.times("begin")[0]
    both_until = min(user.times("begin")[-1] for user in (first, second))
    assert mean_alive([first, second], both_since, both_until) > 2.8
    assert mean_alive([second], both_since, both_until) > 1
    assert limit_at(url, "shared")["active_slots"] == 0

    # The second began after the first had all slots; a slot of one's own is used again at once.
    ended, begun = second.times("end"), second.times("begin")
    gaps = sorted(min((b - e for b in begun if b >= e), default=9.0) for e in ended)
    assert gaps[len(gaps) // 2] < 0.1


def test_the_slots_of_a_killed_process_come_back(
    url: str, prefect_home: Path, tmp_path: Path
) -> None:
    killed = User.start("slots", "killed", 3, 8, 8, 60, log=tmp_path / "killed")
    until(lambda: killed.busy == 3, 60)
    killed.kill()
    left_behind = _leases(prefect_home)
    other = User.start("slots", "killed", 3, 8, 8, 0.2, log=tmp_path / "other")
    until(lambda: bool(other.times("ready")), 60)
    assert limit_at(url, "killed")["active_slots"] == 3
    assert other.busy == 0

    _let_expire(prefect_home, left_behind)
    other.finish(60)
    assert most_alive([other]) == 3
    assert limit_at(url, "killed")["active_slots"] == 0


def _leases(home: Path) -> set[str]:
    return {file.stem for file in (home / "concurrency_leases").glob("*-*.json")}


def _let_expire(home: Path, leases: set[str]) -> None:
    """As a minute would."""
    folder, past = home / "concurrency_leases", "2020-01-01T00:00:00+00:00"
    for lease_id in leases:
        file = folder / f"{lease_id}.json"
        file.write_text(json.dumps(json.loads(file.read_text()) | {"expiration": past}))
    index_file, temporary = folder / "expirations.json", folder / f"{uuid4()}.tmp"
    index = json.loads(index_file.read_text())
    temporary.write_text(json.dumps(index | dict.fromkeys(leases, past)))
    temporary.replace(index_file)


def test_an_explicit_limit_is_set_and_the_default_never_overwrites(url: str) -> None:
    from agentcompass.flows.slots import ProviderSlots

    async def use(limit: int | None) -> None:
        async with ProviderSlots("chosen", limit, 1) as slots, slots.held():
            pass

    asyncio.run(use(None))
    assert limit_at(url, "chosen")["limit"] == 128
    asyncio.run(use(3))
    assert limit_at(url, "chosen")["limit"] == 3
    asyncio.run(use(None))
    assert limit_at(url, "chosen")["limit"] == 3
    # Prefect knows it as the limit of a tag: so the UI and `prefect concurrency-limit` show it.
    found = httpx.get(f"{url}/concurrency_limits/tag/provider:chosen", timeout=30)
    assert found.raise_for_status().json()["concurrency_limit"] == 3


def test_a_limit_of_zero_is_no_limit_and_asks_nobody() -> None:
    from agentcompass.flows.slots import ProviderSlots

    async def use() -> None:
        async with ProviderSlots("free", 0, 4) as slots, AsyncExitStack() as stack:
            for _ in range(500):
                await stack.enter_async_context(slots.held())
            slots.needs(0)

    with connected("http://127.0.0.1:1/api"):
        asyncio.run(use())


def test_slots_follow_what_is_needed_and_what_an_operator_allows(url: str) -> None:
    from agentcompass.flows.slots import ProviderSlots

    def taken() -> int:
        return int(limit_at(url, "operated")["active_slots"])

    async def use() -> None:
        async with ProviderSlots("operated", 6, 20) as slots:
            attempts = Attempts(slots)
            attempts.begin(10)
            await soon(lambda: attempts.alive == 6)
            change(url, "operated", limit=2)
            await asyncio.sleep(3)  # nothing is taken away, nothing more begins
            assert attempts.alive == 6
            await attempts.end(6)
            await soon(lambda: attempts.alive == 2)
            await asyncio.sleep(0.3)
            assert attempts.alive == 2
            change(url, "operated", limit=5)
            await soon(lambda: attempts.alive == 4)
            await attempts.end()
            attempts.begin(5)
            await soon(lambda: attempts.alive == 5)
            await attempts.end(4)
            slots.needs(1)
            await soon(lambda: taken() == 1)
            assert attempts.alive == 1
            await attempts.end()
        assert taken() == 0

    asyncio.run(use())


def test_a_cancelled_run_gives_everything_back_and_a_cancelled_wait_loses_nothing(
    url: str,
) -> None:
    from agentcompass.flows.slots import ProviderSlots

    async def run(slots: Any, began: asyncio.Event) -> None:
        async with slots:
            attempts = Attempts(slots)
            attempts.begin(2)
            await soon(lambda: attempts.alive == 2)
            waiting = [asyncio.create_task(slots.held().__aenter__()) for _ in range(5)]
            await asyncio.sleep(0)
            for task in waiting[:4]:
                task.cancel()
            await attempts.end(1)
            await waiting[4]
            began.set()
            await asyncio.Event().wait()

    async def use() -> float:
        began = asyncio.Event()
        running = asyncio.create_task(run(ProviderSlots("cancelled", 2, 9), began))
        async with asyncio.timeout(30):
            await began.wait()
        assert limit_at(url, "cancelled")["active_slots"] == 2
        cancelled_at = time.monotonic()
        running.cancel()
        await asyncio.sleep(0.01)
        running.cancel()  # impatience skips nothing
        with pytest.raises(asyncio.CancelledError):
            await running
        return time.monotonic() - cancelled_at

    assert asyncio.run(use()) < 10
    assert limit_at(url, "cancelled")["active_slots"] == 0


def test_a_silent_server_and_lost_leases_do_not_touch_attempts_under_way(
    url: str, prefect_home: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from agentcompass.flows import slots

    monkeypatch.setattr(slots, "RENEW_AFTER_SECONDS", 0.5)
    caplog.set_level(logging.INFO, logger="agentcompass.flows.slots")
    running = server.status()
    assert running is not None

    async def use() -> None:
        async with slots.ProviderSlots("silent", 3, 9) as held:
            held._limit._within = held._wishes._limit._within = 2
            attempts = Attempts(held)
            attempts.begin(4)
            await soon(lambda: attempts.alive == 3)

            os.kill(running.pid, signal.SIGSTOP)
            try:
                await soon(lambda: "going on with the 3 slots held" in caplog.text)
                await attempts.end(2)
                await soon(lambda: attempts.alive == 2)  # a slot held serves the next attempt
                await asyncio.sleep(3)
            finally:
                os.kill(running.pid, signal.SIGCONT)
            await soon(lambda: "answers again" in caplog.text)
            assert len([r for r in caplog.records if r.levelno >= logging.WARNING]) == 1

            # As after a restart of a server that keeps leases in memory.
            attempts.begin(1)
            await soon(lambda: attempts.alive == 3)
            held_by = [lease.id for lease in held._leases]
            for lease_id in held_by:
                (prefect_home / "concurrency_leases" / f"{lease_id}.json").unlink(missing_ok=True)
            await soon(lambda: held._held == 3 and not {le.id for le in held._leases} & {*held_by})
            assert attempts.alive == 3
            assert limit_at(url, "silent")["active_slots"] == 3
            await attempts.end()
        assert limit_at(url, "silent")["active_slots"] == 0

    asyncio.run(use())


def test_a_deleted_limit_is_made_again(url: str) -> None:
    from agentcompass.flows.slots import ProviderSlots

    async def use() -> None:
        async with ProviderSlots("deleted", 2, 4) as slots:
            attempts = Attempts(slots)
            attempts.begin(3)
            await soon(lambda: attempts.alive == 2)
            path = f"{url}/v2/concurrency_limits/tag:provider:deleted"
            httpx.delete(path, timeout=30).raise_for_status()
            await soon(lambda: httpx.get(path, timeout=30).is_success)
            await soon(lambda: limit_at(url, "deleted")["active_slots"] == 2)
            assert attempts.alive == 2
            await attempts.end()

    asyncio.run(use())


def test_fair_shares() -> None:
    from agentcompass.flows.fair_shares import TURN_SECONDS, fair_share

    def shares(slots: int, *wishes: int, at: float = 0) -> list[int]:
        wanted = dict(enumerate(wishes))
        return [fair_share(slots, wanted, me, at) for me in wanted]

    assert shares(8, 32) == [8]
    assert shares(8, 3) == [3]
    assert shares(8, 32, 32) == [4, 4]
    assert shares(8, 1, 32, 32) == [1, 3, 4] or shares(8, 1, 32, 32) == [1, 4, 3]
    assert sorted(shares(8, 9, 9, 9)) == [2, 3, 3]
    assert shares(8, 0, 32) == [0, 8]
    assert shares(0, 5, 5) == [0, 0]
    # Fewer slots than runs: each has its turn within a few minutes.
    turns = [shares(1, 5, 5, 1, at=turn * TURN_SECONDS) for turn in range(20)]
    assert all(sum(turn) == 1 for turn in turns)
    assert all(any(turn[run] for turn in turns) for run in range(3))


def test_leases_to_give_back_come_out_even_or_a_few_more() -> None:
    from agentcompass.flows.prefect_limit import Lease
    from agentcompass.flows.slots import to_give_back

    def given(excess: int, *sizes: int) -> list[int]:
        leases = [Lease(uuid4(), size) for size in sizes]
        return [lease.slots for lease in to_give_back(leases, excess)]

    assert given(0, 4, 1) == []
    assert given(-3, 4, 1) == []
    assert given(5, 4, 4, 1, 1) == [4, 1]
    assert given(3, 4, 1, 1, 1) == [1, 1, 1]
    assert given(3, 4, 4, 2) == [2, 4]
    assert given(9, 4, 1) == [4, 1]
