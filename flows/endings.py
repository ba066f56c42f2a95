"""The states that flows and stages end in: what went wrong is one line on the page."""

from typing import TYPE_CHECKING

from prefect.client.schemas.objects import State
from prefect.states import Cancelled, Completed, Failed

from agentcompass.components.contracts.errors import (
    POLICIES,
    AgentCompassError,
    PreflightRefused,
    RequestError,
)
from agentcompass.components.contracts.progress import Outcome
from agentcompass.components.results.headline import headline_sentence
from agentcompass.flows.session import EndedEarly

if TYPE_CHECKING:
    from agentcompass.flows.live import LiveRun

Stage = dict[str, str] | State[dict[str, str]]
"""What is kept of a stage that was carried out, or that it failed."""

WRONG_REQUEST = "wrong request: "
REFUSED = "refused at preflight: "
"""How the messages of runs begin that had no attempts."""
TIMED_OUT = "the run's time-out came"


def final_state(run: "LiveRun") -> State[Outcome]:
    """Of a run that had attempts: one that ended early is not Completed."""
    outcome = run.conclude()
    match outcome.state:
        case "finished":
            return Completed(message=headline_sentence(run.metrics), data=outcome)
        case "interrupted":
            return Cancelled(message="interrupted; finished attempts are kept", data=outcome)
        case "timed_out":
            return Failed(message=TIMED_OUT, data=outcome)
        case "failed":
            return Failed(message=outcome.problem, data=outcome)


def without_attempts(reason: RequestError | PreflightRefused | EndedEarly) -> State[Outcome]:
    """Of a run that ended before it had any. The state's result raises the reason."""
    match reason:
        case EndedEarly():
            return Cancelled(message="interrupted before the attempts began", data=reason)
        case PreflightRefused():
            return Failed(message=f"{REFUSED}{reason}", data=reason)
        case RequestError():
            return Failed(message=f"{WRONG_REQUEST}{reason}", data=reason)


def failed_stage(error: AgentCompassError) -> State[dict[str, str]]:
    """Of a stage of an attempt: `model.unavailable (model): 502 Bad Gateway`."""
    return Failed(message=f"{error.code} ({POLICIES[error.code].owner}): {error}", data=error)
