"""The part of a local run that knows Prefect: start the flow, wait until it is recorded."""

import asyncio
import logging
from typing import Any
from uuid import UUID

import prefect
from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import (
    FlowRunFilter,
    FlowRunFilterParentFlowRunId,
    TaskRunFilter,
    TaskRunFilterState,
    TaskRunFilterStateType,
)
from prefect.client.schemas.objects import State, StateType
from prefect.events.worker import EventsWorker

from agentcompass.components.contracts.progress import Outcome
from agentcompass.components.contracts.run import RunRequest
from agentcompass.components.results.masking import Masker
from agentcompass.flows.attached import run_here
from agentcompass.flows.dead_runs import mark_dead_runs
from agentcompass.flows.logs import console_logging, run_log
from agentcompass.flows.names import tags
from agentcompass.flows.outcome import API_GONE, outcome_of
from agentcompass.flows.run import evaluate
from agentcompass.flows.session import Session, listening

log = logging.getLogger(__name__)

RECORDED_WITHIN_SECONDS = 20


async def carry_out(request: RunRequest, secrets: tuple[str, ...], session: Session) -> Outcome:
    """Run the flow in this process; its own failures rise, an early end is in the outcome."""
    with console_logging(request.runtime, Masker(secrets)), run_log(request.runtime) as session.log:
        await mark_dead_runs()
        with listening(session), prefect.tags(*tags(request)):
            return await outcome_of(session, lambda: _recorded(request))


async def _recorded(request: RunRequest) -> State[Any]:
    state = await run_here(evaluate, {"request": request}, tags(request))
    await until_recorded(state.state_details.flow_run_id)
    return state


async def until_recorded(flow_run_id: UUID | None) -> None:
    """Wait until the server has the final states: they travel as events, behind the run. A
    server that is gone by then takes nothing away but these states."""
    await asyncio.to_thread(EventsWorker.drain_all, timeout=RECORDED_WITHIN_SECONDS)
    if flow_run_id is None:
        return
    unfinished = TaskRunFilter(
        state=TaskRunFilterState(
            type=TaskRunFilterStateType(any_=[StateType.RUNNING, StateType.PENDING])
        )
    )
    ours = FlowRunFilter(parent_flow_run_id=FlowRunFilterParentFlowRunId(any_=[flow_run_id]))
    loop = asyncio.get_running_loop()
    deadline = loop.time() + RECORDED_WITHIN_SECONDS
    try:
        async with get_client() as client:
            while loop.time() < deadline:
                left = await client.read_task_runs(
                    flow_run_filter=ours, task_run_filter=unfinished, limit=1
                )
                if not left:
                    return
                await asyncio.sleep(0.2)
    except API_GONE as error:
        log.debug("the server went away before it had told: %r", error)
    log.warning("the Prefect server has not recorded every task run's end yet")
