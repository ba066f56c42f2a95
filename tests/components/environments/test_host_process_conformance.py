import tempfile
from pathlib import Path

from agentcompass.components.contracts.protocols import EnvironmentProvider
from agentcompass.components.environments.host_process import HostProcess, HostProcessParameters
from tests.conformance.environment import EnvironmentConformance


class TestHostProcess(EnvironmentConformance):
    def provider(self) -> EnvironmentProvider:
        return HostProcess(HostProcessParameters())

    def outside_host(self) -> str:
        return "127.0.0.1"

    async def count_alive(self, run_id: str) -> int:
        folder = Path(tempfile.gettempdir())
        return len(list(folder.glob(f"agentcompass-{run_id[-16:]}-*")))
