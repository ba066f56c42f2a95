"""The docker provider behaves like every other."""

import asyncio

from agentcompass.components.contracts.protocols import EnvironmentProvider
from agentcompass.components.contracts.requirements import Requirements
from agentcompass.components.environments.docker import Docker, DockerParameters
from tests.components.environments.docker_boxes import gateway
from tests.components.environments.docker_engine import IMAGE, containers_of, needs_engine
from tests.conformance.environment import EnvironmentConformance


@needs_engine
class TestDocker(EnvironmentConformance):
    requirements = Requirements(image=IMAGE)

    def provider(self) -> EnvironmentProvider:
        return Docker(DockerParameters())

    def outside_host(self) -> str:
        return asyncio.run(gateway())

    async def count_alive(self, run_id: str) -> int | None:
        return len(await asyncio.to_thread(containers_of, run_id))
