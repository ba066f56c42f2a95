"""The record of one physical attempt's steps: contracts' AttemptLog, kept in memory as ATIF."""

import threading
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from agentcompass.components.contracts.attempt import AttemptKey, Note
from agentcompass.components.contracts.errors import Code, Phase
from agentcompass.components.contracts.model import Message, ModelReply, ToolDefinition
from agentcompass.components.contracts.trajectory import (
    AgentInfo,
    AtifToolCall,
    FinalMetrics,
    Observation,
    ObservationResult,
    Step,
    StepMetrics,
    Trajectory,
)


class TrajectoryLog:
    """Collects steps as they happen, so that a harness that crashes leaves what it did.

    Safe to call from several threads. Every state of it gives a valid trajectory.
    """

    def __init__(
        self, agent_name: str, agent_version: str, model_name: str | None, key: AttemptKey
    ) -> None:
        self.notes: list[Note] = []
        """Warnings, in order, with phase RUN."""
        self.version: str | None = None
        """Of the agent library or program that really ran; None if the harness is its own."""
        self._agent_name = agent_name
        self._agent_version = agent_version
        self._model_name = model_name
        self._key = key
        self._tools: tuple[Mapping[str, Any], ...] | None = None
        self._steps: list[Step] = []
        self._latest_agent: int | None = None
        self._lock = threading.RLock()

    def trajectory(self) -> Trajectory:
        """What was logged so far; a placeholder step stands where nothing was."""
        with self._lock:
            steps = tuple(self._steps)
        if not steps:
            steps = (Step(step_id=1, timestamp=_now(), source="system", message="No step logged."),)
        key = self._key
        return Trajectory(
            session_id=f"{key.task_id}#{key.index}.{key.physical}",
            agent=AgentInfo(
                name=self._agent_name,
                version=self.version or self._agent_version,
                model_name=self._model_name,
                tool_definitions=self._tools,
            ),
            steps=steps,
            final_metrics=_final_metrics(steps),
            extra={"task_id": key.task_id, "attempt": key.index, "physical": key.physical},
        )

    def tools(self, definitions: Sequence[ToolDefinition]) -> None:
        self._tools = tuple(
            {
                "type": "function",
                "function": {
                    "name": tool.name,
                    "description": tool.description,
                    "parameters": tool.parameters,
                },
            }
            for tool in definitions
        )

    def system(self, text: str) -> None:
        with self._lock:
            self._steps.append(self._step("system", text))

    def user(self, text: str) -> None:
        with self._lock:
            self._steps.append(self._step("user", text))

    def agent(self, reply: ModelReply, *, extra: dict[str, Any] | None = None) -> None:
        message = reply.message
        fields = {
            "model_name": reply.model_name,
            "reasoning_content": message.reasoning,
            "tool_calls": _tool_calls(message),
            "metrics": _metrics(reply),
            "extra": _reply_facts(reply) | (extra or {}) or None,
        }
        with self._lock:
            self._append_agent(self._step("agent", message.content, **fields))

    def action(self, text: str) -> None:
        with self._lock:
            self._append_agent(self._step("agent", text))

    def observe(self, call_id: str | None, content: str) -> None:
        """Unknown call ids are dropped (the content stays): the format allows only known ones."""
        with self._lock:
            if self._latest_agent is None:
                self._append_agent(self._step("agent", ""))
            assert self._latest_agent is not None
            step = self._steps[self._latest_agent]
            known = {call.tool_call_id for call in step.tool_calls or ()}
            result = ObservationResult(
                source_call_id=call_id if call_id in known else None, content=content
            )
            earlier = step.observation.results if step.observation else ()
            self._steps[self._latest_agent] = step.model_copy(
                update={"observation": Observation(results=(*earlier, result))}
            )

    def note(self, code: Code, message: str) -> None:
        with self._lock:
            self.notes.append(Note(code=code, phase=Phase.RUN, message=message))

    def agent_version(self, version: str) -> None:
        self.version = version

    @property
    def steps(self) -> Sequence[Step]:
        with self._lock:
            return tuple(self._steps)

    def _append_agent(self, step: Step) -> None:
        self._latest_agent = len(self._steps)
        self._steps.append(step)

    def _step(self, source: str, message: str, **fields: Any) -> Step:
        return Step.model_validate(
            {
                "step_id": len(self._steps) + 1,
                "timestamp": _now(),
                "source": source,
                "message": message,
                **fields,
            }
        )


def _tool_calls(message: Message) -> tuple[AtifToolCall, ...] | None:
    """A malformed call is listed with no arguments; what was sent stands in the step's extra."""
    return (
        tuple(
            AtifToolCall(
                tool_call_id=call.id, function_name=call.name, arguments=call.arguments or {}
            )
            for call in message.tool_calls
        )
        or None
    )


def _reply_facts(reply: ModelReply) -> dict[str, Any]:
    malformed = [
        {"tool_call_id": call.id, "raw_arguments": call.raw_arguments, "problem": call.problem}
        for call in reply.message.tool_calls
        if call.arguments is None
    ]
    facts: dict[str, Any] = {"finish_reason": reply.finish_reason}
    if reply.latency_seconds:
        facts["latency_seconds"] = reply.latency_seconds
    if reply.waiting_seconds:
        facts["waiting_seconds"] = reply.waiting_seconds
    if malformed:
        facts["malformed_calls"] = malformed
    return facts


def _metrics(reply: ModelReply) -> StepMetrics | None:
    usage = reply.usage
    metrics = StepMetrics(
        prompt_tokens=usage.input_tokens,
        completion_tokens=usage.output_tokens,
        cached_tokens=usage.cached_input_tokens,
        cost_usd=usage.cost_usd,
        extra=(
            None if usage.reasoning_tokens is None else {"reasoning_tokens": usage.reasoning_tokens}
        ),
    )
    return metrics if metrics != StepMetrics() else None


def _final_metrics(steps: Sequence[Step]) -> FinalMetrics:
    """Sums of what is known; None where nothing is."""
    metrics = [step.metrics for step in steps if step.metrics is not None]

    def known_sum(name: str) -> Any:
        known = [value for m in metrics if (value := getattr(m, name)) is not None]
        return sum(known) if known else None

    return FinalMetrics(
        total_prompt_tokens=known_sum("prompt_tokens"),
        total_completion_tokens=known_sum("completion_tokens"),
        total_cached_tokens=known_sum("cached_tokens"),
        total_cost_usd=known_sum("cost_usd"),
        total_steps=len(steps),
    )


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
