"""Several requests in one go. Prefect loads this file by its path: flows and nothing else."""

import prefect
from prefect.client.schemas.objects import State
from prefect.states import Completed, Failed

from agentcompass.components.contracts.run import RunRequest
from agentcompass.flows.run import evaluate
from agentcompass.flows.together import together


@prefect.flow(flow_run_name="{name}", persist_result=False)
async def launch(name: str, requests: list[RunRequest]) -> State[None]:
    """Measure every request; each is a sub-flow, and one that fails stops no other."""
    all_of_them = together(requests)
    await all_of_them.run_all(evaluate)
    bad = [member for member in all_of_them.members if member.exit_code != 0]
    message = f"{len(requests) - len(bad)} of {len(requests)} requests ended with every score"
    return Failed(message=message) if bad else Completed(message=message)
