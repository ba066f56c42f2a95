"""The entry point for a retry of a run that has no deployment, of `agentcompass run` that is:

    prefect flow-run retry ID --entrypoint agentcompass.flows.again.evaluate

Prefect's command executes the flow in its own process, and only one that is not async.
"""

from concurrent.futures import Future

import prefect
from prefect.client.schemas.objects import State

from agentcompass.components.contracts.progress import Outcome
from agentcompass.flows import run
from agentcompass.flows.form import RequestForm
from agentcompass.flows.local import in_a_thread
from agentcompass.flows.names import run_name
from agentcompass.flows.session import Session
from agentcompass.flows.unattended import looked_after

Ended = Outcome | State[Outcome]


@prefect.flow(name="evaluate", flow_run_name=run_name, persist_result=False)
def evaluate(request: RequestForm) -> Ended:
    """Go on with an evaluation."""
    session = Session()

    async def go_on() -> Ended:
        async with looked_after(request, session):
            ended: Ended = await run.evaluate.fn(request)
            return ended

    future: Future[Ended] = in_a_thread(go_on, session.request_stop)
    return future.result()
