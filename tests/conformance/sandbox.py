"""What the environment conformance suite stands on: open a provider's sandbox, run a scenario."""

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from itertools import count

import pytest

from agentcompass.components.contracts.attempt import AttemptKey
from agentcompass.components.contracts.protocols import EnvironmentProvider
from agentcompass.components.contracts.requirements import Requirements
from agentcompass.components.contracts.sandbox import Environment, SandboxLabel

_numbers = count(1)

Scenario = Callable[[Environment], Awaitable[None]]


class SandboxScenarios:
    """A provider's test class overrides `provider`, and what else is different for it."""

    requirements = Requirements()
    """What the provider needs to open a plain sandbox (an image)."""
    slack_seconds = 10.0
    """Over the asked time-out: what a slow machine and provider may add."""
    memory_mb = 64
    """A memory limit small enough to be passed quickly, where the provider enforces one."""
    large_bytes = 32 * 1024 * 1024
    """Sent both ways in one piece."""

    def provider(self) -> EnvironmentProvider:
        raise NotImplementedError

    def outside_host(self) -> str:
        """By what name or address a sandbox reaches a server that listens on this machine, on
        all its addresses: for the tests it is the outside world."""
        pytest.skip("this provider's tests do not say how this machine is reached (outside_host)")

    async def count_alive(self, run_id: str) -> int | None:
        """How many sandboxes of a run stand, asked of the engine or service itself and not of
        the provider; None: there is no way to know, and less is tested."""
        return None

    def needs(self, promised: bool, what: str) -> None:
        """Skip what the provider's capabilities do not promise, by a reason the docs' table
        of skipped behaviours is made from."""
        if not promised:
            pytest.skip(f"not promised: {what}")

    def inside(self, scenario: Scenario, **changes: object) -> None:
        """Run a scenario in a new sandbox; `changes` to the requirements."""

        async def run() -> None:
            required = self.requirements.model_copy(update=changes)
            async with self.provider().open(required, label()) as env:
                await scenario(env)

        asyncio.run(run())


def label(
    task_id: str = "conformance/task 1", *, run_id: str = "conformance", keep: bool = False
) -> SandboxLabel:
    return SandboxLabel(run_id, AttemptKey(task_id=task_id, index=next(_numbers)), keep=keep)


def own_run_id() -> str:
    """Of a run that only one test has."""
    return f"conformance_{secrets.token_hex(5)}"
