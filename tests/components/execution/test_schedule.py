import asyncio

import pytest

from agentcompass.components.contracts.run import AttemptPlan
from agentcompass.components.execution.schedule import Ending, Unit, units, work_through
from tests.standins.parts import sample


def some_units(count: int) -> list[Unit]:
    return [Unit(sample(f"t{n}"), (1,)) for n in range(count)]


def work(todo: list[Unit], do: object, concurrency: int = 4, **limits: object) -> Ending:
    async def run() -> Ending:
        stop = limits.pop("stop", None) or asyncio.Event()
        return await work_through(
            iter(todo),
            concurrency,
            do,  # type: ignore[arg-type]
            stop=stop,  # type: ignore[arg-type]
            timeout_seconds=limits.get("timeout_seconds"),  # type: ignore[arg-type]
        )

    return asyncio.run(run())


def test_avg_makes_every_first_attempt_before_any_second() -> None:
    samples = [sample("a"), sample("b")]
    planned = units(samples, AttemptPlan(k=2))
    assert [(u.sample.task.id, u.indices) for u in planned] == [
        ("a", (1,)),
        ("b", (1,)),
        ("a", (2,)),
        ("b", (2,)),
    ]


def test_pass_keeps_a_tasks_attempts_together() -> None:
    (unit,) = units([sample("a")], AttemptPlan(k=3, strategy="pass"))
    assert (unit.indices, unit.stop_at_success) == ((1, 2, 3), True)


def test_never_more_than_the_concurrency_at_once() -> None:
    running, most, done = 0, 0, 0

    async def do(unit: Unit) -> None:
        nonlocal running, most, done
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.001)
        running -= 1
        done += 1

    assert work(some_units(50), do, 7) == "finished"
    assert (most, done) == (7, 50)


def test_thousands_of_planned_units_start_no_thousands_of_tasks() -> None:
    tasks_seen = 0

    async def do(unit: Unit) -> None:
        nonlocal tasks_seen
        tasks_seen = max(tasks_seen, len(asyncio.all_tasks()))
        await asyncio.sleep(0)

    assert work(some_units(5_000), do, 4) == "finished"
    assert tasks_seen < 10


def test_the_time_out_ends_what_runs_and_waits_for_its_teardown() -> None:
    torn_down = []

    async def do(unit: Unit) -> None:
        try:
            await asyncio.sleep(3600)
        finally:
            await asyncio.sleep(0.05)
            torn_down.append(unit)

    assert work(some_units(10), do, 3, timeout_seconds=0.1) == "timed_out"
    assert len(torn_down) == 3


def test_stop_is_an_interruption() -> None:
    async def run() -> Ending:
        stop = asyncio.Event()

        async def do(unit: Unit) -> None:
            stop.set()
            await asyncio.sleep(3600)

        return await work_through(iter(some_units(3)), 2, do, stop=stop, timeout_seconds=None)

    assert asyncio.run(run()) == "interrupted"


def test_the_first_failure_ends_the_others_and_rises() -> None:
    cancelled = 0

    async def do(unit: Unit) -> None:
        nonlocal cancelled
        if unit.sample.task.id == "t1":
            raise OSError("disk full")
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            cancelled += 1
            raise

    with pytest.raises(OSError, match="disk full"):
        work(some_units(10), do, 3)
    assert cancelled == 2
