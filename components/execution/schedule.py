"""In which order a run's attempts are made, and how many at once. No Prefect here."""

import asyncio
import heapq
import itertools
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Literal

from agentcompass.components.contracts.attempt import AttemptKey, Checkpoint, Note
from agentcompass.components.contracts.run import AttemptPlan
from agentcompass.components.contracts.task import Sample
from agentcompass.components.contracts.usage import Usage

Ending = Literal["finished", "interrupted", "timed_out"]


@dataclass(frozen=True)
class Unit:
    """Attempts of one task that are made one after another; the first may have been tried."""

    sample: Sample
    indices: tuple[int, ...]
    stop_at_success: bool = False
    physical: int = 1
    """Of the first index: which execution comes next."""
    failures: tuple[Note, ...] = ()
    """Of the first index: why its earlier tries failed. Each uses up one of `max_retries`."""
    spent: Usage = Usage()
    """Of the first index: what its earlier tries cost."""
    checkpoint: Checkpoint | None = None
    """Of the first index: what the agent left in a try that was not judged."""

    @property
    def key(self) -> AttemptKey:
        return AttemptKey(
            task_id=self.sample.task.id, index=self.indices[0], physical=self.physical
        )


@dataclass(frozen=True)
class Later:
    """A unit to go on with after a pause."""

    unit: Unit
    seconds: float = 0.0


def units(samples: Sequence[Sample], plan: AttemptPlan) -> Iterator[Unit]:
    """`avg`: every first attempt, then every second one, …, each by itself, so that early
    numbers speak of all tasks. `pass`: one unit a task, ended by the first success.
    """
    indices = range(1, plan.k + 1)
    if plan.strategy == "pass":
        in_turn = tuple(indices)
        yield from (Unit(sample, in_turn, stop_at_success=True) for sample in samples)
    else:
        yield from (Unit(sample, (index,)) for index in indices for sample in samples)


async def work_through(
    todo: Iterator[Unit],
    concurrency: int,
    do: Callable[[Unit], Awaitable[Later | None]],
    *,
    stop: asyncio.Event,
    timeout_seconds: float | None,
) -> Ending:
    """Do every unit, `concurrency` at a time, until all are done, `stop` is set or time is up.

    What `do` returns comes again after its pause; nobody waits for it meanwhile. The first
    exception of a unit ends the others and rises. Nothing is left running.
    """
    if stop.is_set():
        return "interrupted"
    _make_room(concurrency)
    agenda = _Agenda(todo)

    async def worker() -> None:
        while (unit := await agenda.take()) is not None:
            await agenda.put_back(await do(unit))

    workers = {asyncio.create_task(worker()) for _ in range(concurrency)}
    stopping = asyncio.create_task(stop.wait())
    deadline = asyncio.create_task(asyncio.sleep(timeout_seconds or 0))
    watched: set[asyncio.Task[Any]] = {stopping, deadline} if timeout_seconds else {stopping}
    word: Ending | Literal["failed"] = "failed"
    try:
        ending = word = await _until_over(workers, watched, stop)
    finally:
        for task in (*workers, stopping, deadline):
            task.cancel(word)  # it reaches each attempt that is cut off
        await asyncio.gather(*workers, stopping, deadline, return_exceptions=True)
    return ending


async def _until_over(
    workers: set[asyncio.Task[None]], watched: set[asyncio.Task[Any]], stop: asyncio.Event
) -> Ending:
    pending = set(workers)
    while pending:
        done, _ = await asyncio.wait(pending | watched, return_when=asyncio.FIRST_COMPLETED)
        for ended in done & workers:
            ended.result()
        if done & watched:
            return "interrupted" if stop.is_set() else "timed_out"
        pending -= done
    return "finished"


def _make_room(concurrency: int) -> None:
    """Threads for blocking calls, of providers and of our own writes: none waits for another's.

    asyncio's own pool has a handful of threads on a small machine.
    """
    threads = ThreadPoolExecutor(2 * concurrency + 8, thread_name_prefix="agentcompass")
    asyncio.get_running_loop().set_default_executor(threads)


class _Agenda:
    """New units, and those that come again; ends when there are none and none is being done."""

    def __init__(self, todo: Iterator[Unit]) -> None:
        self._todo = todo
        self._later: list[tuple[float, int, Unit]] = []
        self._order = itertools.count()
        self._being_done = 0
        self._changed = asyncio.Condition()

    async def take(self) -> Unit | None:
        async with self._changed:
            while True:
                unit = self._due() or next(self._todo, None)
                if unit is not None:
                    self._being_done += 1
                    return unit
                if not self._later and not self._being_done:
                    return None
                await self._until_something_changes()

    async def put_back(self, later: Later | None) -> None:
        async with self._changed:
            self._being_done -= 1
            if later is not None:
                due = time.monotonic() + later.seconds
                heapq.heappush(self._later, (due, next(self._order), later.unit))
            self._changed.notify_all()

    def _due(self) -> Unit | None:
        if self._later and self._later[0][0] <= time.monotonic():
            return heapq.heappop(self._later)[2]
        return None

    async def _until_something_changes(self) -> None:
        pause = self._later[0][0] - time.monotonic() if self._later else None
        try:
            async with asyncio.timeout(pause):
                await self._changed.wait()
        except TimeoutError:
            return
