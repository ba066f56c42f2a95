"""A whole run, top to bottom. Only this package imports Prefect.

Prefect loads this file as the bare module `run` when a deployment says
`flows/run.py:evaluate`, so it defines flows and Prefect tasks and nothing else.
"""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial

import prefect
from prefect.client.schemas.objects import State

from agentcompass.components.contracts.errors import (
    AgentCompassError,
    PreflightRefused,
    RequestError,
)
from agentcompass.components.contracts.progress import Outcome
from agentcompass.components.execution import analysis, leftovers, prepare
from agentcompass.components.execution import preflight as checks
from agentcompass.components.execution.schedule import units, work_through
from agentcompass.components.execution.unit import run_unit
from agentcompass.flows.cache import by_key
from agentcompass.flows.cancelled import ended_by_cancel
from agentcompass.flows.dead_runs import noted
from agentcompass.flows.endings import Stage, failed_stage, final_state, without_attempts
from agentcompass.flows.form import RequestForm
from agentcompass.flows.handover import HandOver
from agentcompass.flows.limits import shared_limits
from agentcompass.flows.live import current, live
from agentcompass.flows.names import run_name, untagged
from agentcompass.flows.page import kept_up_to_date
from agentcompass.flows.published import publish_analysis, publish_results
from agentcompass.flows.reporting import reporting
from agentcompass.flows.session import EndedEarly
from agentcompass.flows.unattended import in_its_own_session
from agentcompass.flows.without_api import carried_out, finished

Work = Callable[[], Awaitable[None]]


@prefect.flow(flow_run_name=run_name, persist_result=False)
async def evaluate(request: RequestForm) -> State[Outcome]:
    """Measure a model, in a harness, on a benchmark: one number, and what stands behind it."""
    try:
        async with (
            in_its_own_session(request),
            noted(),
            live(request) as run,
            ended_by_cancel(run.session),
        ):
            await prepare_data()
            await preflight()
            await asyncio.to_thread(run.make_folder, partial(HandOver, attempt, score))
            async with kept_up_to_date(run), reporting(run):
                # A failure that stops the attempts is in `run.failure`: what is finished counts.
                both = carried_out(attempts, run), carried_out(scoring, run)
                run.stages = await asyncio.gather(*both)
                await finished(aggregate, run)
                await publish_results(run)
                await finished(analyze, run)
                await publish_analysis(run)
            return final_state(run)
    except (RequestError, PreflightRefused, EndedEarly) as reason:
        return without_attempts(reason)


@prefect.flow(flow_run_name="prepare data", persist_result=False)
async def prepare_data() -> State[Outcome] | None:
    """Load the benchmark's data and select the tasks."""
    run = current()
    try:
        loaded = await asyncio.to_thread(prepare.load_samples, run.plan, run.parts)
    except (RequestError, PreflightRefused) as reason:
        return without_attempts(reason)
    run.dataset, run.samples = loaded
    return None


@prefect.flow(flow_run_name="preflight", persist_result=False)
async def preflight() -> State[Outcome] | None:
    """Find everything that would stop the run, before anything is spent."""
    run = current()
    if problems := await checks.preflight(run.plan, run.parts, run.samples):
        return without_attempts(PreflightRefused(problems))
    await leftovers.reap(run.parts.environments)
    return None


@prefect.flow(flow_run_name="attempts", persist_result=False)
async def attempts() -> None:
    """Let the agent try every planned attempt. Ends when all are scored, or the run must stop."""
    run = current()
    settings, runtime = run.plan.request.execution, run.plan.request.runtime
    with run.handover.closing(), run.working_at("attempts"), untagged():
        async with shared_limits(run):
            run.ending = await work_through(
                units(run.samples, settings.attempts),
                min(settings.task_concurrency, run.board.progress.planned),
                lambda unit: run_unit(unit, run.open),
                stop=run.session.stop,
                timeout_seconds=runtime.timeout_seconds,
            )


@prefect.task(
    task_run_name="{name}", cache_key_fn=by_key, persist_result=True, result_serializer="json"
)
async def attempt(name: str, key: str, work: Work) -> Stage:
    """The agent's stage of one attempt; its checkpoint is in the results folder."""
    try:
        await work()
    except AgentCompassError as error:
        return failed_stage(error)
    return {"attempt": name, "stage": "agent"}


@prefect.flow(flow_run_name="scoring", persist_result=False)
async def scoring() -> None:
    """Judge every checkpoint the moment it exists."""
    run = current()
    with run.working_at("scoring"), untagged():
        await run.handover.judge_all()


@prefect.task(
    task_run_name="{name}", cache_key_fn=by_key, persist_result=True, result_serializer="json"
)
async def score(name: str, key: str, work: Work) -> Stage:
    """The scoring stage of one attempt; its record is in the results folder."""
    try:
        await work()
    except AgentCompassError as error:
        return failed_stage(error)
    return {"attempt": name, "stage": "score"}


@prefect.flow(flow_run_name="aggregate", persist_result=False)
async def aggregate() -> None:
    """From the recorded attempts to the numbers: metrics.json, attempts.parquet, summary.md."""
    run = current()
    with run.working_at("aggregate"):
        await asyncio.to_thread(run.compute)


@prefect.flow(flow_run_name="analyze", persist_result=False)
async def analyze() -> None:
    """Run the analyzers over the finished attempts."""
    run = current()
    settings, stopped = run.plan.request.execution, run.session.stop.is_set
    with run.working_at("analyze"):
        await asyncio.to_thread(analysis.analyze_run, run.store, settings, stopped)
