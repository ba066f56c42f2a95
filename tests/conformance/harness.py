"""What every harness must do, whatever it does inside. Called by the harnesses' own tests.

A third-party harness can be checked the same way: import this module, call its functions.
"""

import asyncio
import re
import time
from collections.abc import Callable
from datetime import datetime
from typing import Any

import pytest

from agentcompass.components.contracts.attempt import Submission
from agentcompass.components.contracts.errors import AgentCompassError, Code
from agentcompass.components.contracts.model import ModelReply
from agentcompass.components.contracts.parameters import HarnessParameters
from agentcompass.components.contracts.protocols import Component, Harness, Needs
from agentcompass.components.contracts.sandbox import Environment
from agentcompass.components.contracts.task import Task
from agentcompass.components.contracts.trajectory import Trajectory
from tests.components.harnesses.fakes import ScriptedModel, new_log, task

PROMPT_STOP_SECONDS = 8.0


def assert_well_declared(component: Component) -> None:
    """Version, defaults that work, a documented parameter model, and its needs."""
    assert component.version
    assert issubclass(component.parameters, HarnessParameters)
    for name, field in component.parameters.model_fields.items():
        assert field.description, f"{name} has no docstring"
    harness = component.create(component.parameters())
    assert isinstance(harness.needs, Needs)
    assert hasattr(harness, "play" if harness.needs.solution else "run")


def assert_model_errors_rise(harness: Harness, env: Environment | None) -> None:
    """An endpoint's failure is not the agent's: asked once, raised as it is."""
    for code in (Code.MODEL_AUTH, Code.MODEL_RATE_LIMITED, Code.MODEL_INVALID_REPLY):
        error, log = AgentCompassError(code, "as it was"), new_log()
        model = ScriptedModel(error)
        with pytest.raises(AgentCompassError) as raised:
            asyncio.run(harness.run(task(), env, model, log))
        assert raised.value is error
        assert len(model.requests) == 1
        assert_valid_trajectory(log.trajectory())


def assert_full_context_is_graded(harness: Harness, env: Environment | None) -> None:
    log, model = new_log(), ScriptedModel(AgentCompassError(Code.MODEL_CONTEXT_WINDOW, "full"))
    submission = asyncio.run(harness.run(task(), env, model, log))
    assert submission.stop_reason == "context_window"
    assert [note.code for note in log.notes] == [Code.MODEL_CONTEXT_WINDOW]
    assert len(model.requests) == 1
    assert_valid_trajectory(log.trajectory())


def assert_ends_when_cancelled(harness: Harness, env: Environment | None) -> None:
    """Cancelled in a model call: the call is cancelled and the harness is gone soon after."""
    log = new_log()

    async def scenario() -> float:
        asked, cancelled = asyncio.Event(), asyncio.Event()

        async def never() -> ModelReply:
            asked.set()
            try:
                return await asyncio.Future()
            finally:
                cancelled.set()

        running = asyncio.create_task(_run(harness, task(), env, ScriptedModel(never), log))
        await asked.wait()
        started = time.monotonic()
        running.cancel()
        await asyncio.wait({running})
        assert running.cancelled()
        assert cancelled.is_set()
        return time.monotonic() - started

    assert asyncio.run(scenario()) < PROMPT_STOP_SECONDS
    assert_valid_trajectory(log.trajectory())


def assert_reasoning_is_no_answer(
    harness: Harness, env: Environment | None, replies: Callable[[], tuple[ModelReply, ...]]
) -> None:
    """`replies`: a whole script whose messages carry the word SECRET only as reasoning."""
    log = new_log()
    submission = asyncio.run(harness.run(task(), env, ScriptedModel(*replies()), log))
    assert "SECRET" not in (submission.answer or "")
    assert any("SECRET" in (step.reasoning_content or "") for step in log.steps)


def assert_valid_trajectory(trajectory: Trajectory) -> None:
    """The rules of ATIF 1.8 that the types alone do not enforce."""
    dumped: dict[str, Any] = trajectory.model_dump(mode="json", exclude_none=True)
    assert dumped["schema_version"] == "ATIF-v1.8"
    assert dumped["agent"]["name"]
    assert dumped["agent"]["version"]
    assert dumped["steps"]
    for number, step in enumerate(dumped["steps"], 1):
        assert step["step_id"] == number
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", step["timestamp"])
        datetime.fromisoformat(step["timestamp"])
        model_only = {"model_name", "reasoning_content", "tool_calls", "metrics"}
        assert step["source"] == "agent" or not model_only & set(step)
        ids = [c["tool_call_id"] for c in step.get("tool_calls", [])]
        assert len(ids) == len(set(ids))
        for result in step.get("observation", {}).get("results", []):
            assert result.get("source_call_id") in [None, *ids]
    assert dumped["final_metrics"]["total_steps"] == len(dumped["steps"])


async def _run(
    harness: Harness, what: Task, env: Environment | None, model: ScriptedModel, log: Any
) -> Submission:
    return await harness.run(what, env, model, log)
