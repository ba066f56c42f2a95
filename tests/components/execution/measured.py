"""A run's attempts with real files, without Prefect."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from agentcompass.components.contracts.attempt import (
    AttemptRecord,
    Submission,
)
from agentcompass.components.contracts.errors import AgentCompassError, Code
from agentcompass.components.contracts.run import (
    Choice,
    ExecutionSettings,
    ModelSpec,
    PlannedComponent,
    RunPlan,
    RunRequest,
)
from agentcompass.components.contracts.task import Sample
from agentcompass.components.execution.board import Board
from agentcompass.components.execution.continuing import go_on
from agentcompass.components.execution.open_run import OpenRun
from agentcompass.components.execution.parts import Parts
from agentcompass.components.execution.schedule import units, work_through
from agentcompass.components.execution.unit import run_unit
from agentcompass.components.results.paths import RunFolder
from agentcompass.components.results.store import RunStore
from tests.components.execution.stages import Directly

FAST = {"retry_min_delay_seconds": 0.01, "retry_max_delay_seconds": 0.02}


def plan(**settings: Any) -> RunPlan:
    request = RunRequest(
        benchmark=Choice(id="yes"),
        harness=Choice(id="agent"),
        model=ModelSpec(id="quiet"),
        execution=ExecutionSettings.model_validate({**FAST, **settings}),
    )
    component = PlannedComponent(id="x", version="1", origin="test", params={})
    return RunPlan(
        request=request,
        benchmark=component,
        harness=component,
        environment=component,
        model_protocol="scripted",
        model_params={},
        primary="correct",
    )


def measured(
    folder: Path,
    made_of: Parts,
    source: Path | None = None,
    *,
    again: bool = False,
    stop_when: Callable[[OpenRun], bool] | None = None,
    **settings: Any,
) -> tuple[OpenRun, list[AttemptRecord]]:
    """Run everything, at concurrency 2; the records in order. `again`: go on in this folder.
    `stop_when`: interrupt the run once it says so."""
    planned = plan(**settings)
    samples: tuple[Sample, ...] = made_of.benchmark.samples  # type: ignore[attr-defined]
    attempts = planned.request.execution.attempts
    folder.mkdir(exist_ok=True)
    run = OpenRun(
        plan=planned,
        parts=made_of,
        fingerprint={},
        store=RunStore(RunFolder(folder)),
        board=Board(len(samples) * attempts.k),
        stages=Directly(),
    )
    if again:
        go_on(run, samples)
    elif source is not None:
        run.adopt_from(RunStore(RunFolder(source)), samples)

    async def everything() -> None:
        stop = asyncio.Event()
        watching = asyncio.create_task(_watch(run, stop_when, stop))
        await work_through(
            units(samples, attempts),
            2,
            lambda unit: run_unit(unit, run),
            stop=stop,
            timeout_seconds=30,
        )
        watching.cancel()

    asyncio.run(everything())
    return run, [record for detail in run.store.details() for record in detail.attempts]


async def _watch(
    run: OpenRun, stop_when: Callable[[OpenRun], bool] | None, stop: asyncio.Event
) -> None:
    while stop_when is not None and not stop_when(run):
        await asyncio.sleep(0.01)
    if stop_when is not None:
        stop.set()


def failing(times: int, code: Code, message: str = "planted") -> Callable[[Any], Awaitable[Any]]:
    """An agent that fails so many times and then is right."""
    left = [times]

    async def act(log: Any) -> Submission:
        if left[0]:
            left[0] -= 1
            raise AgentCompassError(code, message)
        return Submission(answer="yes")

    return act
