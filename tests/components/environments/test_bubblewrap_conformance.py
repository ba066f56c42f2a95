import shutil

import pytest

from agentcompass.components.contracts.protocols import EnvironmentProvider
from agentcompass.components.environments.host_process import HostProcess, HostProcessParameters
from tests.components.environments.test_host_process_conformance import (
    TestHostProcess as _HostProcess,
)

pytestmark = pytest.mark.skipif(shutil.which("bwrap") is None, reason="needs bubblewrap")


class TestBubblewrap(_HostProcess):
    def provider(self) -> EnvironmentProvider:
        return HostProcess(HostProcessParameters(isolation="bubblewrap"))
