"""How a run's flow ended, for whoever started it here."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import httpx
from prefect.client.schemas.objects import State
from prefect.exceptions import PrefectException

from agentcompass.components.contracts.progress import Outcome
from agentcompass.components.execution import analysis
from agentcompass.flows.server import ServerProblem
from agentcompass.flows.session import Session

log = logging.getLogger(__name__)

API_GONE = (httpx.HTTPError, ConnectionError, TimeoutError, PrefectException)
"""What the end of a flow raises for want of its API; a full disk is another thing."""


async def outcome_of(session: Session, flow: Callable[[], Awaitable[State[Any]]]) -> Outcome:
    """Run the flow. An early end is CancelledError, and what stopped it before it had an outcome
    rises; an API that went away after the attempts costs nothing."""
    try:
        state = await flow()
        if session.ended_early:
            raise asyncio.CancelledError
        if session.outcome is None:
            await state.aresult()
            raise RuntimeError(f"the flow ended as {state.name} without an outcome")
    except API_GONE as error:
        if session.outcome is None:
            return await _finish_alone(session, error)
        log.warning("the Prefect API went away at the end; the result is complete without it")
        log.debug("it failed with: %r", error)
    return session.outcome


async def _finish_alone(session: Session, reason: Exception) -> Outcome:
    """What was measured is on disk, and its numbers can be made."""
    run = session.run
    if run is None or not run.attempts_ended:
        raise ServerProblem(
            f"the Prefect API failed before the attempts ended: {reason}"
        ) from reason
    log.warning("the Prefect API went away; the result is complete without it")
    log.debug("it failed with: %r", reason)
    await asyncio.to_thread(run.compute)
    settings, stopped = run.plan.request.execution, session.stop.is_set
    await asyncio.to_thread(analysis.analyze_run, run.store, settings, stopped)
    return run.conclude()
