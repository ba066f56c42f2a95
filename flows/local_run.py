"""The part of a local run that knows Prefect: start the flow, wait until it is recorded."""

import asyncio
import logging
from uuid import UUID

import httpx
import prefect
import prefect.runtime.flow_run
from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import (
    FlowRunFilter,
    FlowRunFilterParentFlowRunId,
    TaskRunFilter,
    TaskRunFilterState,
    TaskRunFilterStateType,
)
from prefect.client.schemas.objects import StateType
from prefect.events.worker import EventsWorker
from prefect.exceptions import PrefectException

from agentcompass.components.contracts.progress import Outcome
from agentcompass.components.contracts.run import RunRequest
from agentcompass.components.execution import analysis
from agentcompass.components.results.masking import Masker
from agentcompass.flows.attached import run_here
from agentcompass.flows.dead_runs import mark_dead_runs
from agentcompass.flows.logs import console_logging, run_log
from agentcompass.flows.names import tags
from agentcompass.flows.run import evaluate
from agentcompass.flows.server import ServerProblem
from agentcompass.flows.session import Session, listening

log = logging.getLogger(__name__)

RECORDED_WITHIN_SECONDS = 20


async def carry_out(request: RunRequest, secrets: tuple[str, ...], session: Session) -> Outcome:
    """Run the flow in this process; its own failures rise, an early end is in the outcome."""
    with console_logging(request.runtime, Masker(secrets)), run_log(request.runtime) as session.log:
        await mark_dead_runs()
        with listening(session), prefect.tags(*tags(request)):
            try:
                state = await run_here(evaluate, {"request": request}, tags(request))
            except (httpx.HTTPError, OSError, PrefectException) as error:
                return await _finish_alone(session, error)
        if session.outcome is None and session.run is not None and session.run.attempts_ended:
            return await _finish_alone(session, state)
        await until_recorded(state.state_details.flow_run_id)
        if session.ended_early:
            raise asyncio.CancelledError
        if session.outcome is None:
            await state.result()  # raises what stopped the flow before it had attempts
            raise RuntimeError(f"the flow ended as {state.name} without an outcome")
        return session.outcome


async def _finish_alone(session: Session, reason: object) -> Outcome:
    """The Prefect API went away: what was measured is on disk, and its numbers can be made."""
    run = session.run
    if run is None or not run.attempts_ended:
        raise ServerProblem(f"the Prefect API failed before the attempts ended: {reason}")
    log.warning("the Prefect API went away; the result is complete without it")
    log.debug("it failed with: %r", reason)
    await asyncio.to_thread(run.compute)
    settings, stopped = run.plan.request.execution, session.stop.is_set
    await asyncio.to_thread(analysis.analyze_run, run.store, settings, stopped)
    return run.conclude()


async def until_recorded(flow_run_id: UUID | None) -> None:
    """Wait until the server has the final states: they travel as events, behind the run."""
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
    async with get_client() as client:
        while loop.time() < deadline:
            left = await client.read_task_runs(
                flow_run_filter=ours, task_run_filter=unfinished, limit=1
            )
            if not left:
                return
            await asyncio.sleep(0.2)
    log.warning("the Prefect server has not recorded every task run's end yet")
