from agentcompass.components.contracts.protocols import EnvironmentProvider
from agentcompass.components.environments.host_process import HostProcess, HostProcessParameters
from tests.conformance.environment import EnvironmentConformance


class TestHostProcess(EnvironmentConformance):
    def provider(self) -> EnvironmentProvider:
        return HostProcess(HostProcessParameters())
