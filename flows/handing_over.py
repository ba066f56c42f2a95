"""`submit` from a thread that has no event loop: choose the API, then talk to it."""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from agentcompass.components.contracts.run import RunRequest
from agentcompass.flows.local import connect

if TYPE_CHECKING:
    from agentcompass.components.results.found_runs import FoundRun
    from agentcompass.flows.submit import Followed, Submitted


def hand_over(request: RunRequest, deployment: str, note: Callable[[str], None]) -> "Submitted":
    """Raises RequestError, and ServerProblem if no Prefect API can be had."""
    connect(note)
    from agentcompass.flows.submit import submit

    return asyncio.run(submit(request, deployment))


def wait_for(flow_run_id: str, tell: Callable[[str], None]) -> "Followed":
    """Raises KeyboardInterrupt and ApiGone; either leaves the run as it is."""
    from agentcompass.flows.submit import follow

    return asyncio.run(follow(flow_run_id, tell))


def recorded_runs(limit: int) -> "list[FoundRun]":
    """What the API knows, newest first; nothing if none answers. Starts no server."""
    from agentcompass.flows import server

    chosen = server.chosen_url()
    if not (chosen and server.answers(chosen)) and server.status() is None:
        return []
    connect(lambda line: None)
    from agentcompass.flows.recorded import recorded

    return asyncio.run(recorded(limit))
