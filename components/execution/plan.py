"""Turn a request into a plan: components loaded, parameters complete, conflicts refused."""

from collections.abc import Mapping
from typing import Any, cast

from pydantic import BaseModel

from agentcompass.components.configuration.spelling import nearest
from agentcompass.components.configuration.validation import validate
from agentcompass.components.contracts.errors import RequestError
from agentcompass.components.contracts.protocols import Benchmark, Component, Harness
from agentcompass.components.contracts.run import (
    Choice,
    PlannedComponent,
    RunPlan,
    RunRequest,
)
from agentcompass.components.execution.analysis import check_params
from agentcompass.components.execution.provider_names import check_provider_names
from agentcompass.components.execution.recipes import matching_recipes
from agentcompass.components.execution.typed_secrets import refuse_secrets
from agentcompass.components.registry import registry
from agentcompass.components.registry.registry import Family

BUILT_IN_MODELS = ("scripted", "replay")
DEFAULT_PROTOCOL = "openai-chat"


def resolve(request: RunRequest) -> RunPlan:
    """Everything that can be told from the request alone; RequestError names what is wrong.

    Reads no data set and calls nobody. The model's key is not looked at, only asked for.
    """
    refuse_secrets(request, stored=True)  # a command line's was searched when it was built
    benchmark, planned_benchmark = _component("benchmarks", request.benchmark, "benchmark-params")
    harness, planned_harness = _component("harnesses", request.harness, "harness-params")
    _, planned_environment = _component("environments", request.environment, "env-params")
    protocol = _protocol(request, cast(Harness, harness))
    model = registry.load("models", protocol)
    check_params(request.execution.analysis_params)
    check_provider_names(request.runtime)
    primary = cast(Benchmark, benchmark).primary
    if request.execution.attempts.strategy == "pass" and primary != "correct":
        raise RequestError(
            "attempt-strategy",
            f"`pass` needs a binary primary, and {request.benchmark.id} reports a score",
            "use --attempt-strategy avg",
        )
    return RunPlan(
        request=request,
        benchmark=planned_benchmark,
        harness=planned_harness,
        environment=planned_environment,
        recipes=matching_recipes(request, planned_benchmark),
        model_protocol=protocol,
        model_params=_complete(model, request.model.params, "model-params"),
        primary=primary,
    )


def _component(family: Family, choice: Choice, field: str) -> tuple[object, PlannedComponent]:
    component, parameters, planned = planned_component(family, choice, field)
    return registry.create(family, choice.id, component, parameters), planned


def planned_component(
    family: Family, choice: Choice, field: str
) -> tuple[Component, BaseModel, PlannedComponent]:
    """A component, not created yet, with its parameters and how it stands in the plan."""
    component = registry.load(family, choice.id)
    parameters = validate(component.parameters, choice.params, field)
    planned = PlannedComponent(
        id=choice.id,
        version=component.version,
        origin=registry.find(family, choice.id).origin,
        params=parameters.model_dump(mode="json"),
    )
    return component, parameters, planned


def _complete(component: Component, params: Mapping[str, Any], field: str) -> dict[str, Any]:
    return validate(component.parameters, params, field).model_dump(mode="json")


def _protocol(request: RunRequest, harness: Harness) -> str:
    """The model protocol to speak, and that what it needs was given."""
    spec = request.model
    known = [name for name in registry.listings("models") if name not in BUILT_IN_MODELS]
    for wanted in spec.api_protocol:
        if wanted not in known:
            raise RequestError(
                "model-api-protocol", f"unknown protocol {wanted!r}", nearest(wanted, known)
            )
    if spec.id in BUILT_IN_MODELS:
        if spec.base_url:
            raise RequestError(
                "model-base-url",
                f"the built-in model {spec.id} calls no endpoint",
                "leave it out, or name your own model",
            )
        return spec.id
    if not harness.needs.model and not spec.base_url:
        return "scripted"
    allowed = harness.needs.protocols or tuple(known)
    wanted_protocols = spec.api_protocol or harness.needs.protocols or (DEFAULT_PROTOCOL,)
    chosen = next((name for name in wanted_protocols if name in allowed), None)
    if chosen is None:
        raise RequestError(
            "model-api-protocol",
            f"harness {request.harness.id} does not speak {', '.join(spec.api_protocol)}",
            f"it speaks {', '.join(allowed)}",
        )
    if harness.needs.model:
        _require_access(request)
    return chosen


def _require_access(request: RunRequest) -> None:
    spec, harness = request.model, request.harness.id
    if not spec.base_url:
        raise RequestError(
            "model-base-url",
            f"harness {harness} calls model {spec.id!r} and no address was given",
            "pass --model-base-url URL, or use the built-in model `scripted`",
        )
    if not spec.base_url.startswith(("http://", "https://")):
        raise RequestError(
            "model-base-url", f"{spec.base_url!r} is not an address", "it starts with http(s)://"
        )
    if spec.api_key is None:
        raise RequestError(
            "model-api-key",
            f"harness {harness} calls model {spec.id!r} and no key was given",
            "pass --model-api-key KEY, or `none` (in a form: No key) if it wants none",
        )
