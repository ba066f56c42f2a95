"""In which order a run's attempts are made, and how many at once. No Prefect here."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from agentcompass.components.contracts.run import AttemptPlan
from agentcompass.components.contracts.task import Sample

Ending = Literal["finished", "interrupted", "timed_out"]


@dataclass(frozen=True)
class Unit:
    """Attempts of one task that are made one after another."""

    sample: Sample
    indices: tuple[int, ...]
    stop_at_success: bool = False


def units(samples: Sequence[Sample], plan: AttemptPlan) -> Iterator[Unit]:
    """`avg`: every first attempt, then every second one, …, each by itself, so that early
    numbers speak of all tasks. `pass`: one unit a task, ended by the first success.
    """
    indices = range(1, plan.k + 1)
    if plan.strategy == "pass":
        yield from (Unit(sample, tuple(indices), stop_at_success=True) for sample in samples)
    else:
        yield from (Unit(sample, (index,)) for index in indices for sample in samples)


async def work_through(
    todo: Iterator[Unit],
    concurrency: int,
    do: Callable[[Unit], Awaitable[None]],
    *,
    stop: asyncio.Event,
    timeout_seconds: float | None,
) -> Ending:
    """Do every unit, `concurrency` at a time, until all are done, `stop` is set or time is up.

    The first exception of a unit ends the others and rises. Nothing is left running.
    """

    async def worker() -> None:
        for unit in todo:  # shared: each worker takes the next one
            await do(unit)

    workers = {asyncio.create_task(worker()) for _ in range(concurrency)}
    stopping = asyncio.create_task(stop.wait())
    deadline = asyncio.create_task(asyncio.sleep(timeout_seconds or 0))
    watched = {stopping, deadline} if timeout_seconds else {stopping}
    try:
        pending = set(workers)
        while pending:
            done, _ = await asyncio.wait(pending | watched, return_when=asyncio.FIRST_COMPLETED)
            for ended in done & workers:
                ended.result()
            if done & watched:
                return "interrupted" if stop.is_set() else "timed_out"
            pending -= done
        return "finished"
    finally:
        for task in (*workers, stopping, deadline):
            task.cancel()
        await asyncio.gather(*workers, stopping, deadline, return_exceptions=True)
