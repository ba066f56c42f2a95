"""The live components of a run."""

import os
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import cast

from agentcompass.components.configuration.model_secrets import model_secrets
from agentcompass.components.configuration.secrets import expand, resolve, shell_secrets
from agentcompass.components.configuration.validation import validate
from agentcompass.components.configuration.variables import read_inside
from agentcompass.components.contracts.errors import RequestError
from agentcompass.components.contracts.model import ModelAccess
from agentcompass.components.contracts.parameters import (
    BenchmarkParameters,
    EnvironmentParameters,
)
from agentcompass.components.contracts.protocols import (
    Benchmark,
    BenchmarkInSteps,
    EnvironmentProvider,
    Harness,
    ModelProvider,
    SolutionHarness,
)
from agentcompass.components.contracts.recipe import Recipe, RecipeContext
from agentcompass.components.contracts.requirements import Requirements
from agentcompass.components.contracts.run import PlannedComponent, RunPlan
from agentcompass.components.contracts.task import Sample, Task, Verification
from agentcompass.components.execution.capacity import Pace, Unlimited
from agentcompass.components.execution.model_check_settings import secrets_of_check
from agentcompass.components.execution.no_agent import NoAgent, no_model
from agentcompass.components.execution.recipes import load_recipe, recipe_context
from agentcompass.components.execution.requirements import Adaptation, requirements_of
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
    """Values to be masked at every write, as far as no task is needed to know them."""
    environment_parameters: EnvironmentParameters = EnvironmentParameters()
    recipes: tuple[tuple[str, Recipe], ...] = ()
    """In the order they apply."""
    recipe_context: RecipeContext | None = None
    pace: Pace = field(default_factory=Unlimited)
    """Waited for before a sandbox opens, outside every deadline."""

    def requirements(self, task: Task) -> Requirements:
        """What the agent's sandbox is opened with. Raises RequestError (see requirements_of)."""
        return self._texts_read(self.adapted(task)[0])

    def grading_requirements(self, task: Task) -> Requirements:
        """What a fresh sandbox for the grader is opened with.

        Recipes and the user change it as they change the agent's, but an image that the task
        names for its grader alone stays: theirs is for the agent's.
        """
        own, parameters = task.grading, self.environment_parameters
        if own is None:
            return self.requirements(task)
        graders = own.image, own.build
        if graders not in ((None, None), (task.requirements.image, task.requirements.build)):
            setup = parameters.setup.model_copy(update={"image": None, "build": None})
            parameters = parameters.model_copy(update={"setup": setup})
        task = task.model_copy(update={"requirements": own})
        required, _ = requirements_of(task, parameters, self.recipes, self.recipe_context)
        return self._texts_read(required)

    def _texts_read(self, required: Requirements) -> Requirements:
        """With what stands as `${NAME}` inside of the user's own variables. A task's text stays:
        it may be meant for the shell in the sandbox."""
        changes = {}
        for name in ("env", "run_env", "evaluation_env"):
            given = getattr(self.environment_parameters, name)
            read = read_inside(given, os.environ, f"env-params.{name}")
            if read != given:
                changes[name] = {**getattr(required, name), **read}
        return required.over(**changes) if changes else required

    def secrets_with(self, samples: Iterable[Sample]) -> tuple[str, ...]:
        """All values to be masked at every write: `secrets`, and what the sandboxes of these
        tasks take from the user's shell, whoever said so: the task, a recipe, the user."""
        taken: dict[str, None] = {}
        for sample in samples:
            for task in (sample.task, *(step.task for step in self.steps(sample))):
                graders = [self.grading_requirements] if task.grading is not None else []
                for asked in (self.requirements, *graders):
                    with suppress(RequestError):  # told by whoever opens a sandbox with it
                        required = asked(task)
                        for given in (required.env, required.run_env, required.evaluation_env):
                            taken.update(dict.fromkeys(given.values()))
        return tuple(dict.fromkeys([*self.secrets, *shell_secrets(taken)]))

    def verification(self, task: Task) -> Verification:
        return task.verification or self.benchmark.verification

    def steps(self, sample: Sample) -> tuple[Sample, ...]:
        """Of a task that is done in steps; empty: the agent is called once."""
        return self.benchmark.steps(sample) if isinstance(self.benchmark, BenchmarkInSteps) else ()

    def adapted(self, task: Task) -> tuple[Requirements, tuple[Adaptation, ...]]:
        """The same, and what each recipe changed for this task."""
        return requirements_of(task, self.environment_parameters, self.recipes, self.recipe_context)


def assemble(plan: RunPlan) -> Parts:
    """Create the planned components. Secrets are resolved here and not before."""
    secrets: list[str] = []
    benchmark, benchmark_parameters = _create("benchmarks", plan.benchmark, "benchmark-params")
    rescoring = plan.request.rescore is not None
    harness: object = NoAgent()
    if not rescoring:
        harness, _ = _create("harnesses", plan.harness, "harness-params")
    environments, environment_parameters = _create("environments", plan.environment, "env-params")
    sandbox = cast(EnvironmentParameters, environment_parameters)
    for given in (sandbox.env, sandbox.run_env, sandbox.evaluation_env):
        secrets += shell_secrets(given.values())
    inherited: Iterable[str] = getattr(sandbox, "inherit_env", ())
    secrets += shell_secrets(f"${{{name}}}" for name in inherited)
    secrets += secrets_of_check(plan.request)
    return Parts(
        benchmark=cast(Benchmark, benchmark),
        benchmark_parameters=cast(BenchmarkParameters, benchmark_parameters),
        harness=cast(Harness | SolutionHarness, harness),
        harness_id=plan.harness.id,
        harness_version=plan.harness.version,
        environments=cast(EnvironmentProvider, environments),
        model=_uncalled_model(plan, secrets) if rescoring else _model(plan, secrets),
        secrets=tuple(secrets),
        environment_parameters=sandbox,
        recipes=tuple((one.id, load_recipe(plan.request, one)) for one in plan.recipes),
        recipe_context=recipe_context(plan.request, plan.benchmark),
    )


def _create(family: Family, planned: PlannedComponent, field: str) -> tuple[object, object]:
    component = registry.load(family, planned.id)
    parameters = validate(component.parameters, planned.params, field)
    return registry.create(family, planned.id, component, parameters), parameters


def _uncalled_model(plan: RunPlan, secrets: list[str]) -> ModelProvider:
    """Its key is masked where it is known, and not asked for."""
    key = plan.request.model.api_key
    if key is not None and (value := os.environ.get(key.env)):
        secrets.append(value)
    return no_model(plan.request.model.id)


def _model(plan: RunPlan, secrets: list[str]) -> ModelProvider:
    spec = plan.request.model
    component = registry.load("models", plan.model_protocol)
    params, typed = dict(plan.model_params), plan.model_params.get("headers") or {}
    headers = {
        name: expand(value, f"model-params.headers.{name}", secrets)
        for name, value in typed.items()
    }
    if headers:
        params["headers"] = headers
    parameters = validate(component.parameters, params, "model-params")
    url = expand(spec.base_url, "model-base-url", secrets)
    key = resolve(spec.api_key, "model-api-key") if spec.api_key else None
    referring = [value for name, value in headers.items() if value != typed[name]]
    secrets += model_secrets(url, key, referring)
    access = ModelAccess(name=spec.id, base_url=url, api_key=key or None)
    made = registry.create("models", plan.model_protocol, component, parameters, access)
    return cast(ModelProvider, made)
