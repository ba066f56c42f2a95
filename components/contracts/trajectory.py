"""The agent's steps as ATIF 1.8, the Agent Trajectory Interchange Format that Harbor reads.

Field names, optionality and rules follow that format: step ids count from 1; model name,
reasoning, tool calls and metrics stand on agent steps only; an observation result names the
call it answers; prompt tokens include cached ones.
"""

from collections.abc import Mapping
from typing import Any, Literal

from agentcompass.components.contracts.frozen import Frozen


class AtifToolCall(Frozen):
    tool_call_id: str
    function_name: str
    arguments: Mapping[str, Any]


class ObservationResult(Frozen):
    source_call_id: str | None = None
    content: str | None = None


class Observation(Frozen):
    results: tuple[ObservationResult, ...]


class StepMetrics(Frozen):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None
    cost_usd: float | None = None
    extra: Mapping[str, Any] | None = None


class Step(Frozen):
    step_id: int
    timestamp: str | None = None
    source: Literal["system", "user", "agent"]
    message: str
    model_name: str | None = None
    reasoning_content: str | None = None
    tool_calls: tuple[AtifToolCall, ...] | None = None
    observation: Observation | None = None
    metrics: StepMetrics | None = None
    extra: Mapping[str, Any] | None = None


class AgentInfo(Frozen):
    name: str
    version: str
    model_name: str | None = None
    tool_definitions: tuple[Mapping[str, Any], ...] | None = None


class FinalMetrics(Frozen):
    total_prompt_tokens: int | None = None
    total_completion_tokens: int | None = None
    total_cached_tokens: int | None = None
    total_cost_usd: float | None = None
    total_steps: int | None = None


class Trajectory(Frozen):
    schema_version: Literal["ATIF-v1.8"] = "ATIF-v1.8"
    session_id: str
    agent: AgentInfo
    steps: tuple[Step, ...]
    final_metrics: FinalMetrics | None = None
    extra: Mapping[str, Any] | None = None
