from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest

from agentcompass.components.benchmarks.swebench_verified import COMPONENT
from agentcompass.components.contracts.sandbox import Environment
from tests.components.benchmarks.sandboxes import sandbox
from tests.components.benchmarks.swebench_repository import make_data
from tests.conformance.benchmark import BenchmarkConformance


class TestSWEBench(BenchmarkConformance):
    component = COMPONENT

    @pytest.fixture(autouse=True)
    def _data(self, tmp_path: Path) -> None:
        self.parameters = make_data(tmp_path / "data")

    def sandbox(self) -> AbstractAsyncContextManager[Environment]:
        return sandbox()


@pytest.mark.parametrize(("preparation", "seconds"), [("git_clone", 1800), ("prebaked", None)])
def test_a_repository_that_is_installed_here_has_time_for_it(
    tmp_path: Path, preparation: str, seconds: float | None
) -> None:
    parameters = {**make_data(tmp_path / "data"), "preparation": preparation}
    benchmark = COMPONENT.create(COMPONENT.parameters(**parameters))
    [sample] = benchmark.load(tmp_path).samples
    assert sample.task.setup_timeout_seconds == seconds
