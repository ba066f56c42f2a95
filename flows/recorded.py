"""The evaluations that a Prefect API knows."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import FlowFilter, FlowFilterName
from prefect.client.schemas.sorting import FlowRunSort

from agentcompass.flows.submit import FLOW, page, state_name


@dataclass(frozen=True)
class RecordedRun:
    id: str
    name: str
    state: str
    started: datetime | None
    """Or when it is expected to start."""
    run_dir: str
    score: float | None
    url: str


async def recorded(limit: int) -> list[RecordedRun]:
    """Newest first."""
    ours = FlowFilter(name=FlowFilterName(any_=[FLOW]))
    async with get_client() as client:
        flow_runs = await client.read_flow_runs(
            flow_filter=ours, sort=FlowRunSort.EXPECTED_START_TIME_DESC, limit=limit
        )
    found = []
    for flow_run in flow_runs:
        labels: dict[str, Any] = dict(flow_run.labels)
        score = labels.get("agentcompass.score")
        found.append(
            RecordedRun(
                id=str(flow_run.id),
                name=_name(flow_run.parameters, flow_run.name),
                state=state_name(flow_run).lower(),
                started=flow_run.start_time or flow_run.expected_start_time,
                run_dir=str(labels.get("agentcompass.run_dir", "")),
                score=float(score) if isinstance(score, int | float) else None,
                url=page(flow_run.id),
            )
        )
    return found


def _name(parameters: dict[str, Any], name: str) -> str:
    try:
        request = parameters["request"]
        return " · ".join(str(request[part]["id"]) for part in ("benchmark", "harness", "model"))
    except (KeyError, TypeError):
        return name
