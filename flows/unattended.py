"""A run that nobody of ours started: a Prefect worker, `serve`, or a program that calls the flow.

Its log, its tags, and SIGTERM: a worker passes a Cancel on with it, and kills 30 seconds later.
"""

import asyncio
import logging
import signal
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from types import FrameType
from uuid import UUID

import prefect
import prefect.runtime.flow_run
from prefect.client.orchestration import get_client
from prefect.utilities import engine

from agentcompass.components.contracts.run import RunRequest
from agentcompass.flows.api_log import StorableAPILogHandler
from agentcompass.flows.dead_runs import mark_dead_runs
from agentcompass.flows.logs import run_log, survive_a_lost_reader, tell_failures_once
from agentcompass.flows.names import tags
from agentcompass.flows.session import Session, attended, listening

log = logging.getLogger(__name__)


@asynccontextmanager
async def in_its_own_session(request: RunRequest) -> AsyncIterator[None]:
    """Give the run in this block what its starter would, unless it has one."""
    if attended():
        yield
        return
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None
    session = Session()
    with heard_sigterm(lambda number: session.request_stop(number, loop, task)):
        async with looked_after(request, session):
            yield


@asynccontextmanager
async def looked_after(request: RunRequest, session: Session) -> AsyncIterator[None]:
    """Within this block a run of that request reports to the session, its log and its page."""
    with (
        page_logging([request]),
        run_log(request.runtime) as session.log,
        listening(session),
        prefect.tags(*tags(request)),  # for the sub-flows; the run has them below
    ):
        await mark_dead_runs()
        await _tag(request)
        yield


@asynccontextmanager
async def launch_looked_after(requests: Sequence[RunRequest]) -> AsyncIterator[None]:
    """The same for several at once, each with a session of its own already."""
    with page_logging(requests):
        await mark_dead_runs()
        yield


@contextmanager
def heard_sigterm(tell: Callable[[int], None]) -> Iterator[None]:
    """Within this block SIGTERM asks, and does not break into whatever the program is doing.

    In the main thread each flow, and each sub-flow again, has a handler of Prefect's that raises
    in the middle of the event loop and so skips the teardown of sandboxes. Ours stands in its
    place, and is taken for it: a worker asks the process whether it will hear a Cancel.
    """

    def handler(number: int, frame: FrameType | None = None) -> None:
        tell(number)

    main = threading.current_thread() is threading.main_thread()
    if not main or not engine.is_prefect_sigterm_handler_installed():
        yield
        return
    prefects = engine._prefect_sigterm_handler
    engine._prefect_sigterm_handler = handler  # type: ignore[assignment]
    signal.signal(signal.SIGTERM, handler)
    try:
        yield
    finally:
        engine._prefect_sigterm_handler = prefects
        if signal.getsignal(signal.SIGTERM) is handler:
            signal.signal(signal.SIGTERM, prefects)


@contextmanager
def page_logging(requests: Sequence[RunRequest]) -> Iterator[None]:
    """What we say goes to the run's page, and everything of ours to its log file."""
    tell_failures_once()
    survive_a_lost_reader()
    ours = logging.getLogger("agentcompass")
    level, handler = ours.level, StorableAPILogHandler(logging.INFO)
    levels, others = logging.getLevelNamesMapping(), logging.getLogger().handlers[:]
    ours.setLevel(min(logging.INFO, *(levels[one.runtime.file_log_level] for one in requests)))
    ours.addHandler(handler)
    for other in others:  # the worker's console
        other.addFilter(_told)
    try:
        yield
    finally:
        for other in others:
            other.removeFilter(_told)
        ours.removeHandler(handler)
        ours.setLevel(level)


def _told(record: logging.LogRecord) -> bool:
    """Our details are for the log file only."""
    return record.levelno >= logging.INFO or not record.name.startswith("agentcompass")


async def _tag(request: RunRequest) -> None:
    """So that it is found as a run from the command line is."""
    flow_run_id = prefect.runtime.flow_run.id
    wanted = {*prefect.runtime.flow_run.tags, *tags(request)}
    try:
        async with get_client() as client:
            await client.update_flow_run(UUID(flow_run_id), tags=sorted(wanted))
    except Exception as error:  # whatever the API may answer: tags are a courtesy
        log.debug("the flow run is not tagged: %s", error)
