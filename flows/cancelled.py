"""Cancel in the Prefect UI reaches no process that runs a flow by itself: it must ask."""

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from uuid import UUID

import prefect.runtime.flow_run
from prefect.client.orchestration import get_client

from agentcompass.flows import server
from agentcompass.flows.session import EndedEarly, Session

log = logging.getLogger(__name__)

SECONDS = 4.0
"""Between two looks."""


@asynccontextmanager
async def ended_by_cancel(session: Session) -> AsyncIterator[None]:
    """A Cancel ends the run in this block as a signal would. EndedEarly if it had no attempts."""
    task = asyncio.current_task()
    assert task is not None
    try:
        async with heard_cancel(partial(session.end, task)):
            yield
    except asyncio.CancelledError:
        if not session.ended_early:
            raise
        task.uncancel()
        raise EndedEarly from None


@asynccontextmanager
async def heard_cancel(end: Callable[[], None]) -> AsyncIterator[None]:
    """Call `end`, once, when the flow run under way is cancelled within this block."""
    watching = asyncio.create_task(_watch(UUID(prefect.runtime.flow_run.id), end))
    try:
        yield
    finally:
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)


async def _watch(flow_run_id: UUID, end: Callable[[], None]) -> None:
    while True:
        await asyncio.sleep(SECONDS)
        # The client would try for a minute; a look of our own is quick.
        if await api_answers() and await _is_cancelled(flow_run_id):
            log.warning("cancelled in the Prefect UI")
            end()
            return


async def _is_cancelled(flow_run_id: UUID) -> bool:
    try:
        async with get_client() as client:
            state = (await client.read_flow_run(flow_run_id)).state
    except Exception as error:  # whatever the API may answer: the run goes on
        log.debug("the run's state cannot be read: %s", error)
        return False
    return state is not None and (state.is_cancelling() or state.is_cancelled())


async def api_answers() -> bool:
    url = os.environ.get("PREFECT_API_URL", "")
    return not url or await asyncio.to_thread(server.answers, url)
