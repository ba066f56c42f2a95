"""A case's sandboxes in Docker, whatever environment its request names."""

from collections.abc import Iterable
from contextlib import AbstractAsyncContextManager

from agentcompass.components.contracts.protocols import EnvironmentProvider
from agentcompass.components.contracts.requirements import Requirements
from agentcompass.components.contracts.sandbox import Environment, Leftover, SandboxLabel
from agentcompass.components.environments.docker import Docker, DockerParameters
from tests.components.environments.docker_engine import IMAGE


class InDocker:
    """For `measure(..., environments=InDocker)`: tasks that name no image get the tests' own."""

    def __init__(self, instead_of: EnvironmentProvider) -> None:
        self._docker = Docker(DockerParameters())
        self.capabilities = self._docker.capabilities

    async def preflight(self, requirements: Iterable[Requirements]) -> list[str]:
        return await self._docker.preflight(one.over(image=IMAGE) for one in requirements)

    def open(
        self, requirements: Requirements, label: SandboxLabel
    ) -> AbstractAsyncContextManager[Environment]:
        return self._docker.open(requirements.over(image=IMAGE), label)

    async def leftovers(self) -> tuple[Leftover, ...]:
        return await self._docker.leftovers()

    async def remove_leftover(self, leftover: Leftover) -> bool:
        return await self._docker.remove_leftover(leftover)
