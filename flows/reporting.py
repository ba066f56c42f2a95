"""What a run tells while it goes and when it ends: files, console, and the Prefect page."""

import asyncio
import logging
import platform
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from uuid import UUID

import prefect
import prefect.runtime.flow_run
from prefect.artifacts import (
    acreate_markdown_artifact,
    acreate_progress_artifact,
    acreate_table_artifact,
    aupdate_progress_artifact,
)
from prefect.client.schemas.objects import State
from prefect.states import Cancelled, Failed

import agentcompass
from agentcompass.components.contracts.progress import Outcome
from agentcompass.components.results.headline import headline_lines
from agentcompass.flows.live import LiveRun

log = logging.getLogger(__name__)

CONSOLE_SECONDS = 0.5
FILE_SECONDS = 2.0
ARTIFACT_SECONDS = 5.0


@asynccontextmanager
async def reporting(run: LiveRun) -> AsyncIterator[None]:
    """Publish the run's progress in this block, and its end whatever that is."""
    log.info("results: %s", run.store.folder.root)
    await asyncio.to_thread(run.store.write_run, _document(run))
    artifact = await _progress_artifact(run)
    publishing = asyncio.create_task(_publish(run, artifact))
    try:
        yield
    finally:
        publishing.cancel()
        with suppress(asyncio.CancelledError):
            await publishing
        run.board.close(run.state)
        await asyncio.to_thread(run.store.write_progress, _progress_document(run))
        await asyncio.to_thread(run.store.write_run, _document(run))
        run.session.listen(run.board.progress)
        await _update_artifact(run, artifact)


async def publish_results(run: LiveRun) -> None:
    """The score table and the summary on the run's page."""
    rows = [line._asdict() for line in headline_lines(run.metrics)]
    text = await asyncio.to_thread(run.store.folder.summary_md.read_text, encoding="utf-8")
    try:
        await acreate_table_artifact(table=rows, key="score", description="Score")
        await acreate_markdown_artifact(
            markdown=f"{text}\n\nResults: `{run.store.folder.root}`", key="summary"
        )
    except Exception as error:  # the page is a courtesy; the files are the result
        log.warning("no result on the Prefect page: %s", error)


def final_state(run: LiveRun) -> Outcome | State[Outcome]:
    """What the flow returns: a run that ended early is not Completed in the UI."""
    outcome = run.conclude()
    match outcome.state:
        case "finished":
            return outcome
        case "interrupted":
            return Cancelled(message="interrupted; finished attempts are kept", data=outcome)
        case "timed_out":
            return Failed(message="the run's time-out came", data=outcome)
        case "failed":
            return Failed(message=outcome.problem, data=outcome)


async def _publish(run: LiveRun, artifact: UUID | None) -> None:
    told = filed = drawn = 0.0
    clock = asyncio.get_running_loop().time
    while True:
        await asyncio.sleep(CONSOLE_SECONDS)
        now = clock()
        if now - told >= CONSOLE_SECONDS:
            run.session.listen(run.board.progress)
            told = now
        if now - filed >= FILE_SECONDS:
            await asyncio.to_thread(run.store.write_progress, _progress_document(run))
            filed = now
        if now - drawn >= ARTIFACT_SECONDS:
            await _update_artifact(run, artifact)
            drawn = now


async def _progress_artifact(run: LiveRun) -> UUID | None:
    try:
        return await acreate_progress_artifact(0.0, key="progress", description=_sentence(run))
    except Exception as error:  # as above
        log.warning("no progress on the Prefect page: %s", error)
        return None


async def _update_artifact(run: LiveRun, artifact: UUID | None) -> None:
    if artifact is None:
        return
    progress = run.board.progress
    ended = progress.scored + progress.unscored + progress.skipped
    share = 100.0 * ended / progress.planned
    try:
        await aupdate_progress_artifact(artifact, share, description=_sentence(run))
    except Exception as error:  # as above
        log.debug("progress not updated on the Prefect page: %s", error)


def _sentence(run: LiveRun) -> str:
    now = run.board.progress
    mean = f", mean so far {now.value_sum / now.scored:.3f}" if now.scored else ""
    return (
        f"{now.scored} scored, {now.unscored} unscored, {now.skipped} skipped, "
        f"{now.running} running, {now.waiting} waiting of {now.planned}{mean}"
    )


def _progress_document(run: LiveRun) -> dict[str, object]:
    return run.board.progress.model_dump(mode="json")


def _document(run: LiveRun) -> dict[str, object]:
    """run.json: the resolved request without secrets, and what the result depends on."""
    return {
        "schema_version": 1,
        "run_id": run.store.folder.root.name,
        "state": run.board.progress.state,
        "problem": str(run.failure) if run.failure else "",
        "started_at": run.started_at.isoformat(),
        "updated_at": run.board.progress.updated_at.isoformat(),
        "plan": run.plan.model_dump(mode="json"),
        "fingerprint": run.open.fingerprint,
        "dataset": {
            "source": run.dataset.source,
            "revision": run.dataset.revision,
            "content_hash": run.dataset.content_hash,
            "tasks": len(run.dataset.samples),
        },
        "tasks": [sample.task.id for sample in run.samples],
        "versions": {
            "agentcompass": agentcompass.__version__,
            "prefect": prefect.__version__,
            "python": platform.python_version(),
            "platform": platform.platform(),
        },
        "prefect_flow_run_id": prefect.runtime.flow_run.id,
    }
