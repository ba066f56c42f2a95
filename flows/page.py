"""The run's page in the Prefect UI while it goes: progress. What it gave: published.py.

The page is a courtesy and the files are the result: nothing here stops or fails a run, also when
the API goes away. Our own server is started again then.
"""

import asyncio
import logging
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from uuid import UUID

from prefect.artifacts import acreate_progress_artifact, aupdate_progress_artifact

from agentcompass.components.results.progress_shown import sentence
from agentcompass.flows import server
from agentcompass.flows.cancelled import api_answers
from agentcompass.flows.live import LiveRun
from agentcompass.flows.published import forget_earlier

log = logging.getLogger(__name__)

SECONDS = 4.0
"""Between two drawings of the progress."""


@asynccontextmanager
async def kept_up_to_date(run: LiveRun) -> AsyncIterator[None]:
    """Keep the page true in this block, and leave it so."""
    artifact = await _begin(run)
    keeping = asyncio.create_task(_keep(run, artifact))
    try:
        yield
    finally:
        keeping.cancel()
        await asyncio.gather(keeping, return_exceptions=True)
        if await api_answers():
            await _draw(run, artifact)


async def _keep(run: LiveRun, artifact: UUID | None) -> None:
    while True:
        await asyncio.sleep(SECONDS)
        if await api_answers():
            await _draw(run, artifact)
        else:
            await asyncio.to_thread(_revive)


async def _begin(run: LiveRun) -> UUID | None:
    if not await api_answers():
        return None
    try:
        await forget_earlier("progress")
        return await acreate_progress_artifact(0.0, key="progress", description=_sentence(run))
    except Exception as error:  # as above
        log.warning("no progress on the Prefect page: %s", error)
        return None


async def _draw(run: LiveRun, artifact: UUID | None) -> None:
    progress = run.board.progress
    if artifact is None:
        return
    try:
        share = 100.0 * progress.ended / progress.planned
        await aupdate_progress_artifact(artifact, share, description=_sentence(run))
    except Exception as error:  # as above
        log.debug("progress not updated on the Prefect page: %s", error)


def _revive() -> None:
    try:
        if server.revive(os.environ.get("PREFECT_API_URL", "")):
            log.debug("the local Prefect server is there again")
    except server.ServerProblem as problem:
        log.warning("%s", problem)


def _sentence(run: LiveRun) -> str:
    return sentence(run.board.look(), clock=False)
