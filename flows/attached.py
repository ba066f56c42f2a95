"""A run of this process as a run of the deployment `local`: the UI offers Cancel and Retry for
runs of a deployment only.

A Cancel is heard by the run itself. A retry is carried out by a worker of the pool, in the folder
where the run was started.
"""

import logging
import os
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

from prefect import Flow
from prefect.client.orchestration import PrefectClient, get_client
from prefect.client.schemas.actions import DeploymentUpdate, WorkPoolCreate
from prefect.client.schemas.objects import FlowRun, State
from prefect.exceptions import ObjectAlreadyExists, ObjectNotFound
from prefect.flow_engine import run_flow_async
from prefect.states import Pending
from prefect.utilities.callables import parameter_schema

from agentcompass.components.contracts.run import RunRequest
from agentcompass.flows import server

log = logging.getLogger(__name__)

NAME = "local"
POOL = "agentcompass"
"""As in prefect.yaml."""
DESCRIPTION = """\
Runs that were started on a command line or in a program. *Cancel* ends them. *Retry* goes on in
their folder, once a worker looks after the pool: `prefect worker start --pool agentcompass`.
"""


async def run_here(flow: Flow[..., Any], parameters: dict[str, Any], tags: list[str]) -> State[Any]:
    """Carry the flow out in this process; how it ended. Without a deployment where none can be
    had."""
    try:
        async with get_client() as client:
            flow_run = await _created(client, flow, parameters, tags)
    except Exception as error:  # whatever the API may answer: the run matters more than its buttons
        log.debug("the run has no deployment: %s", error)
        flow_run = None
    ended = await run_flow_async(
        flow=flow, flow_run=flow_run, parameters=parameters, return_type="state"
    )
    return cast(State[Any], ended)


async def _created(
    client: PrefectClient, flow: Flow[..., Any], parameters: dict[str, Any], tags: list[str]
) -> FlowRun:
    try:
        known = await client.read_deployment_by_name(f"{flow.name}/{NAME}")
        deployment_id = known.id
        if known.work_pool_name is None and (pool := await _pool(client)):  # made since
            update = DeploymentUpdate(work_pool_name=pool)
            await client.update_deployment(deployment_id, update)
    except ObjectNotFound:
        deployment_id = await client.create_deployment(
            await client.create_flow(flow),
            NAME,
            description=DESCRIPTION,
            entrypoint=f"{flow.fn.__module__}.{flow.fn.__name__}",
            work_pool_name=await _pool(client),
            tags=["agentcompass"],
            parameter_openapi_schema=parameter_schema(flow).model_dump_for_openapi(),
            enforce_parameter_schema=False,  # the request has its own validation
        )
    return await client.create_flow_run_from_deployment(
        deployment_id,
        parameters={name: _plain(value) for name, value in parameters.items()},
        state=Pending(),  # Scheduled would be a worker's
        tags=tags,
        job_variables={"working_dir": str(Path.cwd())},
    )


async def _pool(client: PrefectClient) -> str | None:
    """On a server of ours it is made; on another one it is there or not."""
    ours = server.status()
    if ours is not None and ours.url == os.environ.get("PREFECT_API_URL"):
        with suppress(ObjectAlreadyExists):
            await client.create_work_pool(WorkPoolCreate(name=POOL, type="process"))
        return POOL
    try:
        return (await client.read_work_pool(POOL)).name
    except ObjectNotFound:
        return None


def _plain(value: Any) -> Any:
    if isinstance(value, RunRequest):
        return value.model_dump(mode="json")
    return [_plain(one) for one in value] if isinstance(value, list) else value
