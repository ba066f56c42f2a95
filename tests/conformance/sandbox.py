"""What the environment conformance suite stands on: open a provider's sandbox, run a scenario."""

import asyncio
from collections.abc import Awaitable, Callable
from itertools import count

from agentcompass.components.contracts.attempt import AttemptKey
from agentcompass.components.contracts.protocols import EnvironmentProvider
from agentcompass.components.contracts.sandbox import Environment, SandboxLabel
from agentcompass.components.contracts.task import Requirements

_numbers = count(1)

Scenario = Callable[[Environment], Awaitable[None]]


class SandboxScenarios:
    """A provider's test class overrides `provider`, and what else is different for it."""

    requirements = Requirements()
    """What the provider needs to open a plain sandbox (an image)."""
    slack_seconds = 10.0
    """Over the asked time-out: what a slow machine and provider may add."""

    def provider(self) -> EnvironmentProvider:
        raise NotImplementedError

    def inside(self, scenario: Scenario, **changes: object) -> None:
        """Run a scenario in a new sandbox; `changes` to the requirements."""

        async def run() -> None:
            required = self.requirements.model_copy(update=changes)
            async with self.provider().open(required, label()) as env:
                await scenario(env)

        asyncio.run(run())


def label(task_id: str = "conformance/task 1") -> SandboxLabel:
    return SandboxLabel("conformance", AttemptKey(task_id=task_id, index=next(_numbers)))
