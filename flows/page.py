"""The run's page in the Prefect UI: progress while it goes, the score at its end, and Cancel.

The page is a courtesy and the files are the result: nothing here stops or fails a run, also when
the API goes away. Our own server is started again then.
"""

import asyncio
import logging
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from uuid import UUID

import prefect.runtime.flow_run
from prefect.artifacts import (
    acreate_markdown_artifact,
    acreate_progress_artifact,
    acreate_table_artifact,
    aupdate_progress_artifact,
)
from prefect.client.orchestration import get_client

from agentcompass.components.results.headline import headline_lines
from agentcompass.flows import server
from agentcompass.flows.live import LiveRun

log = logging.getLogger(__name__)

SECONDS = 4.0
"""Between two looks: progress is drawn, and a Cancel is noticed."""


@asynccontextmanager
async def kept_up_to_date(run: LiveRun) -> AsyncIterator[None]:
    """Keep the page true in this block, and leave it so."""
    flow_run_id = UUID(prefect.runtime.flow_run.id)
    artifact = await _begin(run)
    keeping = asyncio.create_task(_keep(run, flow_run_id, artifact))
    try:
        yield
    finally:
        keeping.cancel()
        await asyncio.gather(keeping, return_exceptions=True)
        if await _api_answers():
            await _draw(run, artifact)
            await _label(run, flow_run_id)


async def publish_results(run: LiveRun) -> None:
    """The score table and the summary."""
    rows = [line._asdict() for line in headline_lines(run.metrics)]
    text = await asyncio.to_thread(run.store.folder.summary_md.read_text, encoding="utf-8")
    text += f"\n\nResults: `{run.store.folder.root}`"
    try:
        await acreate_table_artifact(table=rows, key="score", description="Score")
        await acreate_markdown_artifact(markdown=text, key="summary")
    except Exception as error:  # whatever the API may answer
        log.warning("no result on the Prefect page: %s", error)


async def _keep(run: LiveRun, flow_run_id: UUID, artifact: UUID | None) -> None:
    while True:
        await asyncio.sleep(SECONDS)
        # The client would try for a minute; a look of our own is quick.
        if not await _api_answers():
            await asyncio.to_thread(_revive)
            continue
        await _draw(run, artifact)
        if await _is_cancelled(flow_run_id):
            log.warning("cancelled in the Prefect UI")
            run.session.stop.set()
            return


async def _begin(run: LiveRun) -> UUID | None:
    try:
        return await acreate_progress_artifact(0.0, key="progress", description=_sentence(run))
    except Exception as error:  # as above
        log.warning("no progress on the Prefect page: %s", error)
        return None


async def _draw(run: LiveRun, artifact: UUID | None) -> None:
    progress = run.board.progress
    ended = progress.scored + progress.unscored + progress.skipped
    if artifact is None:
        return
    try:
        share = 100.0 * ended / progress.planned
        await aupdate_progress_artifact(artifact, share, description=_sentence(run))
    except Exception as error:  # as above
        log.debug("progress not updated on the Prefect page: %s", error)


async def _label(run: LiveRun, flow_run_id: UUID) -> None:
    """For programs that ask the API: `submit --wait`, `list runs`."""
    outcome, metrics = run.outcome, getattr(run, "metrics", None)
    score = metrics.headline.value if metrics else None
    labels = {
        "agentcompass.run_dir": outcome.run_dir,
        "agentcompass.exit_code": outcome.exit_code,
        "agentcompass.planned": outcome.planned,
        "agentcompass.scored": outcome.scored,
        **({} if score is None else {"agentcompass.score": score}),
    }
    try:
        async with get_client() as client:
            await client.update_flow_run_labels(flow_run_id, labels)
    except Exception as error:  # as above
        log.debug("the flow run is not labelled: %s", error)


async def _is_cancelled(flow_run_id: UUID) -> bool:
    """A Cancel in the UI reaches no process that runs a flow by itself: it must ask."""
    try:
        async with get_client() as client:
            state = (await client.read_flow_run(flow_run_id)).state
    except Exception as error:  # as above
        log.debug("the run's state cannot be read: %s", error)
        return False
    return state is not None and (state.is_cancelling() or state.is_cancelled())


async def _api_answers() -> bool:
    url = os.environ.get("PREFECT_API_URL", "")
    return not url or await asyncio.to_thread(server.answers, url)


def _revive() -> None:
    try:
        if server.revive(os.environ.get("PREFECT_API_URL", "")):
            log.debug("the local Prefect server is there again")
    except server.ServerProblem as problem:
        log.warning("%s", problem)


def _sentence(run: LiveRun) -> str:
    now = run.board.progress
    mean = f", mean so far {now.value_sum / now.scored:.3f}" if now.scored else ""
    return (
        f"{now.scored} scored, {now.unscored} unscored, {now.skipped} skipped, "
        f"{now.running} running, {now.waiting} waiting of {now.planned}{mean}"
    )
