"""Hand a request to a deployment and follow the run that a worker makes of it."""

import asyncio
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import httpx
from prefect.client.orchestration import PrefectClient, get_client
from prefect.client.schemas.filters import (
    ArtifactFilter,
    ArtifactFilterFlowRunId,
    ArtifactFilterKey,
)
from prefect.client.schemas.objects import FlowRun, StateType
from prefect.client.schemas.sorting import ArtifactSort
from prefect.exceptions import ObjectNotFound, PrefectHTTPStatusError
from prefect.utilities.urls import url_for

from agentcompass.components.contracts.errors import RequestError
from agentcompass.components.contracts.run import RunRequest
from agentcompass.flows.endings import REFUSED, WRONG_REQUEST
from agentcompass.flows.names import tags

LOOK_SECONDS = 2.0
PATIENCE_SECONDS = 120.0
"""An API that does not answer for longer is given up on; the run goes on."""

FLOW = "evaluate"

RAISED = re.compile(r"^Flow run encountered an exception: \w+: ")
"""How Prefect begins the message of a flow that raised."""


@dataclass(frozen=True)
class Submitted:
    id: str
    name: str
    url: str
    warning: str = ""
    """Why it may not start soon."""


@dataclass(frozen=True)
class Followed:
    """How the run ended, as the API tells it."""

    state: str
    exit_code: int | None
    """None: the run finished, and did not tell the API whether all of it is scored."""
    problem: str
    labels: dict[str, Any]


class ApiGone(Exception):
    """The API has not answered for long; the run is not known to have ended."""


async def submit(request: RunRequest, deployment: str) -> Submitted:
    """Create the flow run. RequestError if there is no such deployment, or it refuses."""
    name = deployment if "/" in deployment else f"{FLOW}/{deployment}"
    async with get_client() as client:
        try:
            found = await client.read_deployment_by_name(name)
        except (ObjectNotFound, ValueError):
            raise RequestError(
                "deployment",
                f"no deployment {name!r} at {client.api_url}",
                "deploy it: prefect deploy --all in AgentCompass's folder (docs/nightly.md)",
            ) from None
        try:
            flow_run = await client.create_flow_run_from_deployment(
                found.id,
                parameters={"request": request.model_dump(mode="json")},
                name=f"{request.benchmark.id} · {request.harness.id} · {request.model.id}",
                tags=tags(request),
            )
        except PrefectHTTPStatusError as error:
            problem = f"{name} refuses the request: {_told(error)}"
            raise RequestError("deployment", problem) from None
        warning = await _no_worker(client, found.work_pool_name)
    return Submitted(str(flow_run.id), flow_run.name, page(flow_run.id), warning)


async def follow(flow_run_id: str, tell: Callable[[str], None]) -> Followed:
    """Until the run has ended. `tell` hears each new state and progress once, one line each.

    Cancelling this changes nothing about the run. Raises ApiGone.
    """
    wanted, said, failing_since = UUID(flow_run_id), "", None
    loop = asyncio.get_running_loop()
    async with get_client() as client:
        while True:
            try:
                flow_run = await client.read_flow_run(wanted)
                line = await _progress(client, flow_run)
                failing_since = None
            except ObjectNotFound:
                raise ApiGone("the run was deleted at the API") from None
            except (httpx.HTTPError, OSError) as error:
                failing_since = failing_since or loop.time()
                if loop.time() - failing_since > PATIENCE_SECONDS:
                    raise ApiGone(f"the Prefect API does not answer ({error})") from None
                line = said
            else:
                if flow_run.state is not None and flow_run.state.is_final():
                    return _ended(flow_run)
            if line != said:
                tell(line)
                said = line
            await asyncio.sleep(LOOK_SECONDS)


def page(flow_run_id: UUID) -> str:
    return url_for("flow-run", flow_run_id) or str(flow_run_id)


def state_name(flow_run: FlowRun) -> str:
    return (flow_run.state.name if flow_run.state else None) or "unknown"


async def _progress(client: PrefectClient, flow_run: FlowRun) -> str:
    state = flow_run.state
    if state is None or state.type is not StateType.RUNNING:
        return state_name(flow_run)
    artifacts = await client.read_artifacts(
        artifact_filter=ArtifactFilter(
            flow_run_id=ArtifactFilterFlowRunId(any_=[flow_run.id]),
            key=ArtifactFilterKey(any_=["progress"]),
        ),
        sort=ArtifactSort.CREATED_DESC,  # a retried run has more than one
        limit=1,
    )
    return (artifacts[0].description if artifacts else None) or state_name(flow_run)


def _ended(flow_run: FlowRun) -> Followed:
    state, labels = flow_run.state, dict(flow_run.labels)
    assert state is not None
    name = state_name(flow_run)
    ours = {k.removeprefix("agentcompass."): v for k, v in labels.items() if "agentcompass." in k}
    message = " ".join((state.message or "").split())
    problem = RAISED.sub("", message)
    if state.is_completed():
        told = ours.get("exit_code")
        return Followed(name, None if told is None else int(told), "", ours)
    if state.is_cancelled():
        return Followed(name, 130, message, ours)
    for mark, code in ((WRONG_REQUEST, 2), (REFUSED, 3)):
        if message.startswith(mark):
            return Followed(name, code, message.removeprefix(mark), ours)
    return Followed(name, 4, problem, ours)


async def _no_worker(client: PrefectClient, pool: str | None) -> str:
    if pool is None:
        return ""
    try:
        status = (await client.read_work_pool(pool)).status
    except (httpx.HTTPError, ObjectNotFound):
        return ""
    if status is None or status.value == "READY":
        return ""
    return (
        f"no worker looks after the work pool {pool} (it is {status.value.lower()}): "
        f"prefect worker start --pool {pool}"
    )


def _told(error: PrefectHTTPStatusError) -> str:
    """The API's own words, which hold no secret: the request has none."""
    try:
        detail = error.response.json()
    except json.JSONDecodeError:
        return str(error.response.status_code)
    said = detail.get("detail", detail) if isinstance(detail, dict) else detail
    return " ".join(str(said).split())[:500]
