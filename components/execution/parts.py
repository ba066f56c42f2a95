"""The live components of a run."""

from dataclasses import dataclass, field
from typing import cast

from agentcompass.components.configuration.secrets import expand, resolve
from agentcompass.components.configuration.validation import validate
from agentcompass.components.contracts.model import ModelAccess
from agentcompass.components.contracts.parameters import BenchmarkParameters
from agentcompass.components.contracts.protocols import (
    Benchmark,
    EnvironmentProvider,
    Harness,
    ModelProvider,
    SolutionHarness,
)
from agentcompass.components.contracts.run import PlannedComponent, RunPlan
from agentcompass.components.execution.capacity import Pace, Unlimited
from agentcompass.components.registry import registry
from agentcompass.components.registry.registry import Family


@dataclass(frozen=True)
class Parts:
    benchmark: Benchmark
    benchmark_parameters: BenchmarkParameters
    harness: Harness | SolutionHarness
    harness_id: str
    harness_version: str
    environments: EnvironmentProvider
    model: ModelProvider
    secrets: tuple[str, ...]
    """Values to be masked at every write."""
    pace: Pace = field(default_factory=Unlimited)
    """Waited for before a sandbox opens, outside every deadline."""


def assemble(plan: RunPlan) -> Parts:
    """Create the planned components. Secrets are resolved here and not before."""
    secrets: list[str] = []
    benchmark, benchmark_parameters = _create("benchmarks", plan.benchmark, "benchmark-params")
    harness, _ = _create("harnesses", plan.harness, "harness-params")
    environments, _ = _create("environments", plan.environment, "env-params")
    return Parts(
        benchmark=cast(Benchmark, benchmark),
        benchmark_parameters=cast(BenchmarkParameters, benchmark_parameters),
        harness=cast(Harness | SolutionHarness, harness),
        harness_id=plan.harness.id,
        harness_version=plan.harness.version,
        environments=cast(EnvironmentProvider, environments),
        model=_model(plan, secrets),
        secrets=tuple(secrets),
    )


def _create(family: Family, planned: PlannedComponent, field: str) -> tuple[object, object]:
    component = registry.load(family, planned.id)
    parameters = validate(component.parameters, planned.params, field)
    return component.create(parameters), parameters


def _model(plan: RunPlan, secrets: list[str]) -> ModelProvider:
    spec = plan.request.model
    component = registry.load("models", plan.model_protocol)
    params = dict(plan.model_params)
    if headers := params.get("headers"):
        params["headers"] = {
            name: expand(value, f"model-params.headers.{name}", secrets)
            for name, value in headers.items()
        }
    parameters = validate(component.parameters, params, "model-params")
    url = expand(spec.base_url, "model-base-url", secrets)
    key = resolve(spec.api_key, "model-api-key") if spec.api_key else None
    if key:
        secrets.append(key)
    access = ModelAccess(name=spec.id, base_url=url, api_key=key)
    return cast(ModelProvider, component.create(parameters, access))
