"""Names and tags a person can read in the Prefect UI."""

from typing import Any

import prefect.runtime.flow_run
from prefect.context import TagsContext

from agentcompass.components.contracts.run import RunRequest


def run_name() -> str:
    """`benchmark · harness · model`, from the parameters of the flow run under way."""
    request: Any = prefect.runtime.flow_run.parameters["request"]
    if isinstance(request, dict):
        request = RunRequest.model_validate(request)
    again = " · judged again" if request.rescore else ""
    return f"{request.benchmark.id} · {request.harness.id} · {request.model.id}{again}"


def untagged() -> TagsContext:
    """Within this block Prefect task runs carry no tags.

    For each tagged task run the engine asks the API whether the tag has a limit: 12-75 ms, and a
    failure when the server is away. Limits of ours are held by the run as a whole.
    """
    return TagsContext(current_tags=set())


def tags(request: RunRequest) -> list[str]:
    return [
        "agentcompass",
        f"benchmark:{request.benchmark.id}",
        f"harness:{request.harness.id}",
        f"model:{request.model.id}",
        *(["rescore"] if request.rescore else []),
    ]
