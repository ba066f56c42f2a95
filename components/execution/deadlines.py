"""How long each phase of an attempt may take, and what happens when it takes longer."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple, TypeVar

from agentcompass.components.contracts.errors import AgentCompassError, Code
from agentcompass.components.contracts.run import ExecutionSettings
from agentcompass.components.contracts.task import Task

DEFAULT_SETUP_SECONDS = 600.0
DEFAULT_RUN_SECONDS = 3600.0
DEFAULT_EVALUATION_SECONDS = 600.0
WAITING_SECONDS = 3600.0

T = TypeVar("T")


class Deadlines(NamedTuple):
    """Seconds; None: unlimited."""

    setup: float | None
    run: float | None
    grace: float
    collect: float | None
    score: float | None


def deadlines(settings: ExecutionSettings, task: Task) -> Deadlines:
    """What the user set wins over the task's own limits, and these over the defaults."""

    def first(*values: float | None) -> float | None:
        seconds = next(value for value in values if value is not None)
        return seconds * settings.timeout_multiplier if seconds > 0 else None

    return Deadlines(
        setup=first(
            settings.setup_timeout_seconds, task.setup_timeout_seconds, DEFAULT_SETUP_SECONDS
        ),
        run=first(settings.run_timeout_seconds, task.run_timeout_seconds, DEFAULT_RUN_SECONDS),
        grace=settings.finalization_grace_seconds,
        collect=first(settings.artifact_prepare_timeout_seconds),
        score=first(
            settings.evaluation_timeout_seconds,
            task.evaluation_timeout_seconds,
            DEFAULT_EVALUATION_SECONDS,
        ),
    )


def lifetime_seconds(settings: ExecutionSettings, tasks: Sequence[Task]) -> float | None:
    """How long a sandbox is needed at most for a task, or for all its steps; None: a deadline is
    unlimited.

    The agent's waiting for rate limits is outside its deadline: an hour is put on top for it.
    """
    parts: list[float | None] = []
    for limits in (deadlines(settings, task) for task in tasks):
        parts += [limits.setup, limits.run, limits.grace, limits.collect, limits.score]
    known = [seconds for seconds in parts if seconds is not None]
    return sum(known) + WAITING_SECONDS if len(known) == len(parts) else None


async def within(seconds: float | None, code: Code, work: Awaitable[T]) -> T:
    """The work's result; past the deadline it is cancelled and the failure has this code."""
    try:
        async with asyncio.timeout(seconds) as limit:
            return await work
    except TimeoutError:
        if not limit.expired():
            raise
        raise AgentCompassError(code, f"not done after {seconds:g} s") from None


async def until_overrun(
    work: Awaitable[T],
    seconds: float | None,
    grace: float,
    *,
    paused: Callable[[], float],
    at_deadline: Callable[[], None],
) -> T | None:
    """The work's result, or None once it has used up its own time.

    Time that `paused()` reports (seconds so far spent waiting for others) does not count. At
    the deadline `at_deadline` is called, then the work is cancelled and given `grace` seconds
    to end; after that it is left behind. A result that comes within the grace counts.
    """
    task = asyncio.ensure_future(work)
    started = time.monotonic()
    try:
        while True:
            remaining = None
            if seconds is not None:
                remaining = seconds - (time.monotonic() - started - paused())
                if remaining <= 0:
                    break
            done, _ = await asyncio.wait({task}, timeout=remaining)
            if done:
                return task.result()
    except asyncio.CancelledError:
        await _stop(task, grace)
        raise
    at_deadline()
    await _stop(task, grace)
    ended = task.done() and not task.cancelled() and task.exception() is None
    return task.result() if ended else None


async def _stop(task: asyncio.Future[T], grace: float) -> None:
    task.cancel()
    await asyncio.wait({task}, timeout=max(grace, 0.1))
    if task.done() and not task.cancelled():
        task.exception()  # retrieved, so that asyncio does not report it as lost
