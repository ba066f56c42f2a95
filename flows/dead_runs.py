"""Runs whose process died are shown as Crashed, not as Running for ever.

A run under way has a note beside the Prefect database: its process, its flow run, its folder. The
next start on this machine finds the notes of processes that are gone, and marks what they left.
"""

import json
import logging
import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from uuid import UUID

import prefect.runtime.flow_run
import psutil
from prefect.client.orchestration import PrefectClient, get_client
from prefect.client.schemas.filters import (
    FlowRunFilter,
    FlowRunFilterId,
    FlowRunFilterParentFlowRunId,
    FlowRunFilterState,
    FlowRunFilterStateType,
    TaskRunFilter,
    TaskRunFilterState,
    TaskRunFilterStateType,
)
from prefect.client.schemas.objects import FlowRun, StateType
from prefect.exceptions import ObjectNotFound
from prefect.states import Crashed

from agentcompass.components.results.lease import holder
from agentcompass.components.results.paths import RunFolder
from agentcompass.components.results.store import RunStore
from agentcompass.components.results.writing import write_atomic
from agentcompass.flows import server

log = logging.getLogger(__name__)

UNDER_WAY = [StateType.RUNNING, StateType.PENDING, StateType.CANCELLING]
MESSAGE = "its process ended without a word; resume it with --reuse"


@dataclass(frozen=True)
class Note:
    pid: int
    process_started: float
    flow_run_id: str
    run_dir: str
    """"": it has none, or not yet."""
    api_url: str
    host: str = ""


@asynccontextmanager
async def noted() -> AsyncIterator[None]:
    """Within this block the flow run has its note; `note_run` tells its folder later."""
    note = note_run(None)
    try:
        yield
    finally:
        note.unlink(missing_ok=True)


def note_run(run_dir: Path | None) -> Path:
    """Write the note of the flow run that goes on here."""
    flow_run_id = prefect.runtime.flow_run.id
    process = psutil.Process()
    note = Note(
        process.pid,
        process.create_time(),
        flow_run_id,
        str(run_dir or ""),
        os.environ.get("PREFECT_API_URL", ""),
        socket.gethostname(),
    )
    path = _folder() / f"{flow_run_id}.json"
    write_atomic(path, json.dumps(asdict(note)).encode())
    return path


async def mark_dead_runs() -> None:
    """Mark what dead processes left on this API. A failure is told in the log and harms nothing."""
    for path in _folder().glob("*.json"):
        try:
            note = Note(**json.loads(path.read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError):
            path.unlink(missing_ok=True)
            continue
        if note.host not in ("", socket.gethostname()) or _alive(note):
            continue  # a home may be shared by several machines: each looks after its own
        if note.api_url != os.environ.get("PREFECT_API_URL", ""):
            continue
        try:
            await _mark(note)
        except Exception as error:  # whatever the API may answer: the new run goes on
            log.warning("the dead run %s could not be marked: %s", note.flow_run_id, error)
        else:
            path.unlink(missing_ok=True)


async def _mark(note: Note) -> None:
    if note.run_dir:
        folder = RunFolder(Path(note.run_dir))
        if holder(folder.lease):
            return  # it is gone on with, here or elsewhere
        with suppress(OSError):
            _mark_folder(RunStore(folder))
    async with get_client() as client:
        flow_run_id = UUID(note.flow_run_id)
        children = FlowRunFilter(
            parent_flow_run_id=FlowRunFilterParentFlowRunId(any_=[flow_run_id]),
            state=_under_way(),
        )
        for child in await client.read_flow_runs(flow_run_filter=children):
            await _mark_flow_run(client, child)
        if note.flow_run_id == prefect.runtime.flow_run.id:
            return  # it is retried, here and now
        itself = FlowRunFilter(id=FlowRunFilterId(any_=[flow_run_id]), state=_under_way())
        for flow_run in await client.read_flow_runs(flow_run_filter=itself):
            await _mark_flow_run(client, flow_run)
            log.info("run %s is marked as crashed: %s", flow_run.name, MESSAGE)


async def _mark_flow_run(client: PrefectClient, flow_run: FlowRun) -> None:
    unfinished = TaskRunFilter(
        state=TaskRunFilterState(type=TaskRunFilterStateType(any_=UNDER_WAY))
    )
    of_it = FlowRunFilter(id=FlowRunFilterId(any_=[flow_run.id]))
    task_runs = await client.read_task_runs(flow_run_filter=of_it, task_run_filter=unfinished)
    for task_run in task_runs:
        with suppress(ObjectNotFound):
            await client.set_task_run_state(task_run.id, Crashed(message=MESSAGE), force=True)
    await client.set_flow_run_state(flow_run.id, Crashed(message=MESSAGE), force=True)


def _mark_folder(store: RunStore) -> None:
    """The run's own files say it too."""
    document = store.read_run()
    if document is not None and document.get("state") == "running":
        store.write_run({**document, "state": "crashed", "problem": MESSAGE})


def _under_way() -> FlowRunFilterState:
    return FlowRunFilterState(type=FlowRunFilterStateType(any_=UNDER_WAY))


def _alive(note: Note) -> bool:
    try:
        process = psutil.Process(note.pid)
        return abs(process.create_time() - note.process_started) < 1
    except psutil.Error:
        return False


def _folder() -> Path:
    folder = server.home() / "agentcompass-runs"
    folder.mkdir(exist_ok=True)
    return folder
