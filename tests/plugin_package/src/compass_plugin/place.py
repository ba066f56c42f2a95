"""This machine's processes, with a variable of this package."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from agentcompass.components.contracts.protocols import Component
from agentcompass.components.contracts.requirements import Requirements
from agentcompass.components.contracts.sandbox import Environment, SandboxLabel
from agentcompass.components.environments import host_process


class Place:
    def __init__(self, parameters: host_process.HostProcessParameters) -> None:
        self._below = host_process.COMPONENT.create(parameters)
        self.capabilities = self._below.capabilities
        self.preflight = self._below.preflight
        self.leftovers = self._below.leftovers
        self.remove_leftover = self._below.remove_leftover

    @asynccontextmanager
    async def open(
        self, requirements: Requirements, label: SandboxLabel
    ) -> AsyncIterator[Environment]:
        ours = requirements.over(env={**requirements.env, "FROM_ENVIRONMENT": "environment"})
        async with self._below.open(ours, label) as sandbox:
            yield sandbox


COMPONENT = Component(version="1", create=Place, parameters=host_process.HostProcessParameters)
