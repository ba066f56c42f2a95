"""A flow run that is retried goes on in the folder that it had.

Prefect executes a retried flow run again under its own id. A request of a launch gets a new flow
run then; the launch keeps its id, and the request its number in it.
"""

import logging
from pathlib import Path
from typing import Any
from uuid import UUID

import prefect.runtime.flow_run
from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterParentFlowRunId
from prefect.client.schemas.objects import FlowRun

from agentcompass.components.contracts.errors import RequestError
from agentcompass.components.results.paths import RunFolder
from agentcompass.components.results.reading import DamagedRecord
from agentcompass.components.results.store import RunStore
from agentcompass.flows.session import session

log = logging.getLogger(__name__)

KEY = "flow_run_key"
"""In run.json, and with `agentcompass.` before it a label of the flow run."""


def key() -> str:
    """What a run is found by when it is retried: its flow run's id, or `launch's id/number`."""
    return session().launched_as or str(prefect.runtime.flow_run.id)


def is_retry() -> bool:
    """Not the only way to be executed again: a Resume does not count."""
    return session().launch_retried or int(prefect.runtime.flow_run.run_count or 1) > 1


def folder(namespace: Path) -> RunFolder | None:
    """The folder that the flow run under way had; None if this is its first execution, or it
    ended before it had one. Blocking.

    RequestError if it had one that is not here: everything would be paid for again.
    """
    labelled = _labelled()
    if not (labelled or is_retry()):
        return None
    places = [Path(labelled)] if labelled else sorted(namespace.glob("*"))
    for place in places:
        found = RunFolder(place)
        if _is_ours(found):
            log.info("the run goes on in its folder")
            return found
    if labelled:
        raise RequestError("retry", f"the run's folder {labelled} {_wrong(Path(labelled))}")
    return None


def _wrong(place: Path) -> str:
    if not place.is_dir():
        return "is not here; retry it where the folder is, or start a new run"
    try:
        known = RunStore(RunFolder(place)).read_run()
    except DamagedRecord:
        known = None
    if known is None:
        return "has no readable run.json; start a new run"
    return "holds another run's results now (judged again?); start a new run"


def _is_ours(found: RunFolder) -> bool:
    try:
        return (RunStore(found).read_run() or {}).get(KEY) == key()
    except DamagedRecord as error:
        log.warning("%s", error)
        return False


def _labelled() -> str | None:
    """The folder that the API knows of."""
    launch, _, _ = key().partition("/")
    with get_client(sync_client=True) as client:
        known: list[FlowRun] = [client.read_flow_run(UUID(launch))]
        if session().launched_as:
            parent = FlowRunFilterParentFlowRunId(any_=[UUID(launch)])
            known = client.read_flow_runs(flow_run_filter=FlowRunFilter(parent_flow_run_id=parent))
    for flow_run in known:
        labels: dict[str, Any] = dict(flow_run.labels)
        if labels.get(f"agentcompass.{KEY}") == key():
            return str(labels.get("agentcompass.run_dir", ""))
    return None
