from collections.abc import Iterator
from typing import ClassVar

import pytest

from agentcompass.components.contracts.protocols import EnvironmentProvider
from agentcompass.components.contracts.requirements import Requirements
from agentcompass.components.environments.modal import Modal, ModalParameters
from tests.components.environments.modal_sandboxes import needs_sandboxes
from tests.conformance.environment import EnvironmentConformance
from tests.standins import memory_limit
from tests.standins.modal_server import ModalStandin, modal_standin


@needs_sandboxes
class TestModal(EnvironmentConformance):
    requirements = Requirements(image="debian:stable-slim")

    standin: ClassVar[ModalStandin]

    @pytest.fixture(autouse=True, scope="class")
    @staticmethod
    def _servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
        with modal_standin(tmp_path_factory.mktemp("modal")) as TestModal.standin:
            yield

    def provider(self) -> EnvironmentProvider:
        return Modal(ModalParameters())

    def outside_host(self) -> str:
        return self.standin.outside.address

    async def count_alive(self, run_id: str) -> int | None:
        return sum(sandbox.tags["run"] == run_id for sandbox in self.standin.living())

    def test_memory_over_the_limit_is_told_from_a_kill(self) -> None:
        if not memory_limit.works():
            pytest.skip("no control groups for the stand-in's memory limit")
        super().test_memory_over_the_limit_is_told_from_a_kill()
