"""Where only judging is done: no agent, and no model that could be called or would cost."""

from agentcompass.components.contracts.attempt import Submission
from agentcompass.components.contracts.errors import AgentCompassError, Code
from agentcompass.components.contracts.model import ModelAccess
from agentcompass.components.contracts.protocols import (
    AttemptLog,
    ModelClient,
    ModelProvider,
    Needs,
)
from agentcompass.components.contracts.sandbox import Environment
from agentcompass.components.contracts.task import Task
from agentcompass.components.registry import registry


class NoAgent:
    """Satisfies contracts.protocols.Harness, and never runs."""

    needs = Needs(sandbox=False, model=False)

    async def run(
        self, task: Task, env: Environment | None, model: ModelClient, log: AttemptLog
    ) -> Submission:
        raise AgentCompassError(Code.FRAMEWORK_UNEXPECTED, "this run only judges; no agent may run")


def no_model(name: str) -> ModelProvider:
    """Answers nothing anybody asks for; needs no key."""
    component = registry.load("models", "scripted")
    made: ModelProvider = registry.create(
        "models",
        "scripted",
        component,
        component.parameters(),
        ModelAccess(name=name, base_url="", api_key=None),
    )
    return made
