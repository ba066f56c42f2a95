"""What a run tells while it goes and when it ends: its files, and whoever listens."""

import asyncio
import logging
import platform
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import prefect
import prefect.runtime.flow_run

import agentcompass
from agentcompass.components.contracts.errors import AgentCompassError
from agentcompass.components.execution.conclusion import dataset_facts
from agentcompass.components.execution.revision import code_revision, source_hash
from agentcompass.flows import retried
from agentcompass.flows.dead_runs import note_run
from agentcompass.flows.labels import label_begun, label_ended
from agentcompass.flows.live import LiveRun

log = logging.getLogger(__name__)

LISTENER_SECONDS = 0.5
FILE_SECONDS = 2.0


@asynccontextmanager
async def reporting(run: LiveRun) -> AsyncIterator[None]:
    """Publish the run's progress in this block, and its end whatever that is."""
    log.info("results: %s", run.store.folder.root)
    await asyncio.to_thread(run.store.write_run, _document(run))
    await label_begun(run)
    note_run(run.store.folder.root)
    telling, filing = asyncio.create_task(_tell(run)), asyncio.create_task(_file(run))
    try:
        yield
    finally:
        for task in (telling, filing):
            task.cancel()
        await asyncio.gather(telling, filing, return_exceptions=True)
        await asyncio.to_thread(close_files, run)
        _tell_listener(run)
        await label_ended(run)


def close_files(run: LiveRun) -> None:
    """The last word of run.json and progress.json. Blocking."""
    run.board.close(run.state)
    run.store.write_progress(_progress_document(run))
    run.store.write_run(_document(run))


async def _tell(run: LiveRun) -> None:
    while True:
        await asyncio.sleep(LISTENER_SECONDS)
        _tell_listener(run)


def _tell_listener(run: LiveRun) -> None:
    try:
        run.session.listen(run.board.look())
    except Exception:  # of the user's own program: the run goes on, unheard
        log.exception("the listener failed, and is told no more")
        run.session.listen = lambda progress: None


async def _file(run: LiveRun) -> None:
    while True:
        await asyncio.sleep(FILE_SECONDS)
        try:
            await asyncio.to_thread(run.store.write_progress, _progress_document(run))
        except AgentCompassError as error:  # a disk may have room again
            log.debug("progress.json is not written: %s", error)


def _progress_document(run: LiveRun) -> dict[str, object]:
    return run.board.look().model_dump(mode="json")


def _document(run: LiveRun) -> dict[str, object]:
    """run.json: the resolved request without secrets, and what the result depends on."""
    return {
        "schema_version": 1,
        "run_id": run.store.folder.root.name,
        "state": run.board.progress.state,
        "problem": run.problem if run.attempts_ended else "",
        "started_at": run.started_at.isoformat(),
        "updated_at": run.board.progress.updated_at.isoformat(),
        "plan": run.plan.model_dump(mode="json"),
        "fingerprint": run.open.fingerprint,
        "dataset": dataset_facts(run.dataset),
        "tasks": [sample.task.id for sample in run.samples],
        "categories": {s.task.id: s.task.category for s in run.samples if s.task.category},
        **run.open.provenance,
        "versions": {
            "agentcompass": agentcompass.__version__,
            "revision": code_revision(),
            "source_hash": source_hash(),
            "prefect": prefect.__version__,
            "python": platform.python_version(),
            "platform": platform.platform(),
        },
        "prefect_flow_run_id": prefect.runtime.flow_run.id,
        retried.KEY: retried.key(),
    }
