"""Names and tags a person can read in the Prefect UI."""

from typing import Any

import prefect.runtime.flow_run

from agentcompass.components.contracts.run import RunRequest


def run_name() -> str:
    """`benchmark · harness · model`, from the parameters of the flow run under way."""
    request: Any = prefect.runtime.flow_run.parameters["request"]
    if isinstance(request, dict):
        request = RunRequest.model_validate(request)
    return f"{request.benchmark.id} · {request.harness.id} · {request.model.id}"


def tags(request: RunRequest) -> list[str]:
    return [
        "agentcompass",
        f"benchmark:{request.benchmark.id}",
        f"harness:{request.harness.id}",
        f"model:{request.model.id}",
    ]
