"""A provider's blocking call holds up nobody else, and no plan is too large to start (C48)."""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from agentcompass.components.contracts.protocols import EnvironmentProvider
from agentcompass.components.contracts.requirements import Requirements
from agentcompass.components.contracts.sandbox import Environment, SandboxLabel
from tests.cases.rig import Ran, UnderWay, Watch, ask, measure
from tests.cases.toy import Toy, number, put, shell, submit
from tests.standins.model_endpoint import ModelServer
from tests.standins.model_script import Reply, RequestInfo


class Blocking:
    """A provider over an SDK that blocks a thread for some seconds whenever it opens a sandbox."""

    def __init__(self, inner: EnvironmentProvider, seconds: Callable[[str], float]) -> None:
        self._inner, self._seconds = inner, seconds
        self.capabilities = inner.capabilities
        self.waited: list[float] = []
        """How long each call took, its wait for a thread included."""

    async def preflight(self, requirements: Iterable[Requirements]) -> list[str]:
        return await self._inner.preflight(requirements)

    @asynccontextmanager
    async def open(
        self, requirements: Requirements, label: SandboxLabel
    ) -> AsyncIterator[Environment]:
        started = time.monotonic()
        await asyncio.to_thread(time.sleep, self._seconds(label.attempt.task_id))
        self.waited.append(time.monotonic() - started)
        async with self._inner.open(requirements, label) as environment:
            yield environment


def solve(request: RequestInfo) -> Reply:
    """One command that takes a second, then the answer."""
    task = number(request)
    moves = (shell("tool_agent", "sleep 1"), put("tool_agent", task), submit("tool_agent"))
    return moves[min(request.step, 2)]


def ended(ran: Ran) -> dict[str, float]:
    """Seconds from the run's first start to each attempt's end."""
    records = ran.records().values()
    begun = min(r.started_at for r in records if r.started_at)
    return {r.key.task_id: (r.ended_at - begun).total_seconds() for r in records if r.ended_at}


def test_eight_at_work_while_one_call_blocks(tmp_path: Path) -> None:
    with ModelServer(solve) as endpoint:
        request = ask(tmp_path, "quickstart", "tool_agent", endpoint.base_url)
        ran = measure(
            request,
            Toy(9),
            environments=lambda inner: Blocking(inner, lambda t: 5.0 * (t == "toy-9")),
        )
    assert ran.metrics.headline.value == 1.0
    times = ended(ran)
    assert times.pop("toy-9") > 5
    assert max(times.values()) < 5


def test_a_deadline_comes_on_time_while_calls_block(tmp_path: Path) -> None:
    """Eight openings block for five seconds; the ninth task has one second for its command."""

    def answer(request: RequestInfo) -> Reply:
        return shell("tool_agent", "sleep 100") if number(request) == 9 else solve(request)

    with ModelServer(answer) as endpoint:
        request = ask(
            tmp_path,
            "quickstart",
            "tool_agent",
            endpoint.base_url,
            run_timeout_seconds=1,
            finalization_grace_seconds=5,
        )
        ran = measure(
            request,
            Toy(9),
            environments=lambda inner: Blocking(inner, lambda t: 5.0 * (t != "toy-9")),
        )
    late = ran.record("toy-9")
    assert late.timed_out
    assert late.times.run_seconds is not None
    assert 1 <= late.times.run_seconds < 4
    assert ended(ran)["toy-9"] < 5  # recorded while the others still block


def test_sixty_four_blocking_calls_at_once(tmp_path: Path) -> None:
    """No hidden pool is smaller than the concurrency that was asked for."""
    providers: list[Blocking] = []

    def blocking(inner: EnvironmentProvider) -> EnvironmentProvider:
        providers.append(Blocking(inner, lambda task: 1.0))
        return providers[0]

    request = ask(tmp_path, "quickstart", "oracle", task_concurrency=64)
    ran = measure(request, Toy(64), environments=blocking)
    assert ran.metrics.headline.value == 1.0
    (provider,) = providers
    assert len(provider.waited) == 64
    assert max(provider.waited) < 5


def test_a_slow_disk_holds_up_nobody_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each sync takes as long as on a network disk; the agent leaves a hundred files."""
    real = os.fsync

    def slow(handle: int) -> None:
        time.sleep(0.02)
        real(handle)

    late: list[float] = []

    async def watch(run: UnderWay) -> None:
        monkeypatch.setattr(os, "fsync", slow)
        while not run.progress.scored:
            started = time.monotonic()
            await asyncio.sleep(0.01)
            late.append(time.monotonic() - started)

    moves = (
        shell("tool_agent", "touch kept-{1..100}"),
        submit("tool_agent"),
    )
    with ModelServer(lambda request: moves[min(request.step, 1)]) as endpoint:
        one = {"sample_ids": ["csv-quotes"]}
        request = ask(tmp_path, "quickstart", "tool_agent", endpoint.base_url, benchmark_params=one)
        ran = measure(request, watch=watch)
    submission = ran.record("csv-quotes").submission
    assert submission is not None
    assert len(submission.artifacts) == 102
    assert max(late) < 2  # in a row the syncs take four seconds


def test_five_thousand_planned_start_as_fast_as_four(tmp_path: Path) -> None:
    tasks: list[int] = []
    first: list[float] = []

    def watching() -> Watch:
        started = time.monotonic()

        async def watch(run: UnderWay) -> None:
            while run.progress.scored < 40:
                if run.progress.scored and not first:
                    first.append(time.monotonic() - started)
                tasks.append(len(asyncio.all_tasks()))
                await asyncio.sleep(0.01)
            run.stop.set()

        return watch

    request = ask(tmp_path, "quickstart", "oracle", task_concurrency=4)
    ran = measure(request, Toy(5_000), watch=watching())
    assert ran.ending == "interrupted"
    assert ran.metrics.coverage.planned_attempts == 5_000
    assert first[0] < 10
    assert max(tasks) < 40
    assert max(tasks[len(tasks) // 2 :]) <= max(tasks[: len(tasks) // 2]) + 5
