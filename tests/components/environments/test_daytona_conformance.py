"""The conformance suite over the real SDK and a stand-in API whose sandboxes really run."""

import os
import subprocess
from collections.abc import Iterator

import pytest

from agentcompass.components.contracts.protocols import EnvironmentProvider
from agentcompass.components.contracts.requirements import Requirements
from tests.components.environments.daytona_places import daytona, standing_in
from tests.conformance.environment import EnvironmentConformance
from tests.standins import memory_limit
from tests.standins.daytona_box import needs_sandboxes
from tests.standins.daytona_server import DaytonaServer

OUTSIDE = f"203.0.113.{os.getpid() % 254 + 1}"


@needs_sandboxes
class TestDaytona(EnvironmentConformance):
    requirements = Requirements(image="debian:12.9")
    memory_mb = 1024  # Daytona counts in GiB; the stand-in's are small
    server: DaytonaServer

    @pytest.fixture(autouse=True, scope="class")
    def standin(
        self, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
    ) -> Iterator[None]:
        with standing_in(tmp_path_factory.mktemp("daytona")) as request.cls.server:
            subprocess.run(["ip", "addr", "add", f"{OUTSIDE}/32", "dev", "lo"], check=False)
            yield
            subprocess.run(["ip", "addr", "del", f"{OUTSIDE}/32", "dev", "lo"], check=False)

    def provider(self) -> EnvironmentProvider:
        return daytona()

    def outside_host(self) -> str:
        return OUTSIDE

    async def count_alive(self, run_id: str) -> int | None:
        alive = list(self.server.sandboxes.values())
        return sum(sandbox.labels["agentcompass.run"] == run_id for sandbox in alive)

    def test_memory_over_the_limit_is_told_from_a_kill(self) -> None:
        if "CI" not in os.environ and not memory_limit.works():
            pytest.skip("no control groups for the stand-in's memory limit")
        super().test_memory_over_the_limit_is_told_from_a_kill()
