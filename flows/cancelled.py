"""Cancel in the Prefect UI reaches no process that runs a flow by itself: it must ask.

Suspend is taken for a Cancel. Prefect would break off at the next task run of whatever attempt,
and a Resume would begin a second run beside the sandboxes of the first.
"""

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any
from uuid import UUID

import prefect.runtime.flow_run
from prefect.client.orchestration import get_client
from prefect.client.schemas.objects import State
from prefect.context import FlowRunContext

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
    """Call `end` when the flow run under way is cancelled or suspended within this block."""
    _take_suspension(end)
    watching = asyncio.create_task(_watch(UUID(prefect.runtime.flow_run.id), end))
    try:
        yield
    finally:
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)


def _take_suspension(end: Callable[[], None]) -> None:
    """Prefect's own word of it, which comes from a thread; sub-flows share that of their parent."""
    context = FlowRunContext.get()
    if context is not None and prefect.runtime.flow_run.parent_flow_run_id is None:
        loop = asyncio.get_running_loop()

        def told(state: State[Any]) -> None:
            loop.call_soon_threadsafe(end)

        context.flow_run_suspension_request.mark_requested = told  # type: ignore[method-assign]


async def _watch(flow_run_id: UUID, end: Callable[[], None]) -> None:
    while True:
        await asyncio.sleep(SECONDS)
        # The client would try for a minute; a look of our own is quick.
        if await api_answers() and (how := await _ended_in_the_ui(flow_run_id)):
            log.warning("%s in the Prefect UI", how)
            end()
            return


async def _ended_in_the_ui(flow_run_id: UUID) -> str:
    try:
        async with get_client() as client:
            state = (await client.read_flow_run(flow_run_id)).state
    except Exception as error:  # whatever the API may answer: the run goes on
        log.debug("the run's state cannot be read: %s", error)
        return ""
    if state is None:
        return ""
    if state.is_paused():
        return "suspended"
    return "cancelled" if state.is_cancelling() or state.is_cancelled() else ""


async def api_answers() -> bool:
    url = os.environ.get("PREFECT_API_URL", "")
    return not url or await asyncio.to_thread(server.answers, url)
