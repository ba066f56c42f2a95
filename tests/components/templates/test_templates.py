"""What `agentcompass new` writes conforms: people start from it."""

from contextlib import AbstractAsyncContextManager

from agentcompass.components.contracts.protocols import EnvironmentProvider
from agentcompass.components.contracts.sandbox import Environment
from agentcompass.components.templates import benchmark, environment, harness
from tests.conformance.benchmark import BenchmarkConformance
from tests.conformance.environment_commands import CommandConformance
from tests.conformance.harness import assert_ends_when_cancelled, assert_well_declared


class TestBenchmark(BenchmarkConformance):
    component = benchmark.COMPONENT

    def sandbox(self) -> AbstractAsyncContextManager[Environment]:
        raise AssertionError("it needs none")


class TestEnvironment(CommandConformance):
    def provider(self) -> EnvironmentProvider:
        made: EnvironmentProvider = environment.COMPONENT.create(environment.ExampleParameters())
        return made


def test_the_harness_is_well_declared_and_ends_when_cancelled() -> None:
    assert_well_declared(harness.COMPONENT)
    assert_ends_when_cancelled(harness.COMPONENT.create(harness.ExampleParameters()), None)
