"""The evaluations that a Prefect API knows."""

from pathlib import PurePath
from typing import Any

from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import FlowFilter, FlowFilterName
from prefect.client.schemas.objects import FlowRun, StateType
from prefect.client.schemas.sorting import FlowRunSort

from agentcompass.components.results.found_runs import FoundRun
from agentcompass.flows.endings import TIMED_OUT
from agentcompass.flows.submit import FLOW, RAISED, page, state_name


async def recorded(limit: int) -> list[FoundRun]:
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
            FoundRun(
                id=str(flow_run.id),
                name=_name(flow_run.parameters, flow_run.name),
                state=_state(flow_run),
                problem=_problem(flow_run),
                rescored_from=_rescored(flow_run.parameters),
                continued=max(0, flow_run.run_count - 1),
                started=flow_run.start_time or flow_run.expected_start_time,
                run_dir=str(labels.get("agentcompass.run_dir", "")),
                score=float(score) if isinstance(score, int | float) else None,
                flow_run_id=str(flow_run.id),
                url=page(flow_run.id),
            )
        )
    return found


_STATES = {StateType.COMPLETED: "finished", StateType.CANCELLED: "interrupted"}
_FAILED = (StateType.FAILED, StateType.CRASHED)


def _state(flow_run: FlowRun) -> str:
    state = flow_run.state
    if state is not None and state.type is StateType.FAILED and state.message == TIMED_OUT:
        return "timed_out"
    named = _STATES.get(state.type) if state is not None else None
    return named or state_name(flow_run).lower()


def _problem(flow_run: FlowRun) -> str:
    state = flow_run.state
    if state is None or state.type not in _FAILED:
        return ""
    return RAISED.sub("", " ".join((state.message or "").split()))


def _rescored(parameters: dict[str, Any]) -> str:
    try:
        return PurePath(parameters["request"]["rescore"]["run_dir"]).name
    except (KeyError, TypeError):
        return ""


def _name(parameters: dict[str, Any], name: str) -> str:
    try:
        request = parameters["request"]
        return " · ".join(str(request[part]["id"]) for part in ("benchmark", "harness", "model"))
    except (KeyError, TypeError):
        return name
