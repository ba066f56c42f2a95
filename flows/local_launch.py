"""The part of a local launch that knows Prefect."""

from agentcompass.components.contracts.run import RuntimeSettings
from agentcompass.components.results.masking import Masker
from agentcompass.flows.attached import run_here
from agentcompass.flows.dead_runs import mark_dead_runs
from agentcompass.flows.launch import launch
from agentcompass.flows.local_run import until_recorded
from agentcompass.flows.logs import console_logging
from agentcompass.flows.together import Together, starting


async def carry_out(
    name: str, together: Together, settings: RuntimeSettings, secrets: tuple[str, ...]
) -> None:
    """Run the flow in this process; how each request ended is in its member."""
    with console_logging(settings, Masker(secrets)):
        await mark_dead_runs()
        starting(together)
        requests = [member.request for member in together.members]
        state = await run_here(launch, {"name": name, "requests": requests}, [])
        await until_recorded(state.state_details.flow_run_id)
