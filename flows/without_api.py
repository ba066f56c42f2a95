"""The Prefect API went away: the work goes on without it, and nothing paid for is lost."""

import logging
from typing import Any

import httpx
from prefect import Flow
from prefect.client.schemas.objects import State
from prefect.exceptions import PrefectException
from prefect.states import Completed, Failed

from agentcompass.flows.cancelled import api_answers
from agentcompass.flows.live import LiveRun

log = logging.getLogger(__name__)

GONE = (httpx.HTTPError, OSError, PrefectException)
"""What Prefect's engine raises for want of its API."""


async def carried_out(sub_flow: Flow[[], Any], run: LiveRun) -> State[Any]:
    """How the sub-flow ended. Where it cannot even begin, its work is done all the same."""
    if await api_answers():  # else the client would try for a minute
        try:
            return await sub_flow(return_state=True)
        except GONE as error:
            log.debug("the sub-flow %s has no API: %r", sub_flow.name, error)
            if sub_flow.name in run.worked_at:
                return Completed()
            if sub_flow.name in run.working_at_now:
                return Failed(message=f"the Prefect API went away: {error}")
    log.warning("the Prefect API went away; the run goes on without it")
    try:
        await sub_flow.fn()
    except Exception as error:  # the run has noted it
        return Failed(message=str(error), data=error)
    return Completed()


async def finished(sub_flow: Flow[[], Any], run: LiveRun) -> None:
    """The same; raises what ended it."""
    state = await carried_out(sub_flow, run)
    await state.aresult()
