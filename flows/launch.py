"""Several requests in one go. Prefect loads this file by its path: flows and nothing else."""

import asyncio
from contextlib import nullcontext
from typing import Annotated, Any

import prefect
import prefect.runtime.flow_run
from prefect.client.schemas.objects import State
from prefect.states import Cancelled, Completed, Failed
from pydantic import Field

from agentcompass.components.contracts.run import RunRequest
from agentcompass.flows.cancelled import heard_cancel
from agentcompass.flows.dead_runs import noted
from agentcompass.flows.form import RequestForm
from agentcompass.flows.retried import is_retry
from agentcompass.flows.run import evaluate
from agentcompass.flows.together import begun_here, together
from agentcompass.flows.unattended import heard_sigterm, launch_looked_after


@prefect.flow(flow_run_name="{name}", persist_result=False)
async def launch(
    name: str, requests: Annotated[list[RequestForm], Field(min_length=1)]
) -> State[None]:
    """Measure every request; each is a sub-flow, and one that fails stops no other."""
    all_of_them = together(requests)
    all_of_them.belongs_to(prefect.runtime.flow_run.id, retried=is_retry())
    loop = asyncio.get_running_loop()

    async def as_sub_flow(request: RunRequest) -> State[Any]:
        return await evaluate(request, return_state=True)

    def stop(number: int) -> None:
        loop.call_soon_threadsafe(all_of_them.request_stop, number)

    async with nullcontext() if begun_here() else launch_looked_after(requests):
        with heard_sigterm(stop):
            async with noted(), heard_cancel(all_of_them.request_stop):
                await all_of_them.run_all(as_sub_flow)
    bad = [member for member in all_of_them.members if member.exit_code != 0]
    message = f"{len(requests) - len(bad)} of {len(requests)} requests ended with every score"
    if all_of_them.stop.is_set():
        return Cancelled(message=message)
    return Failed(message=message) if bad else Completed(message=message)
