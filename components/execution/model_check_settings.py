"""What is asked for under `model_check` in the analysis parameters, and the model it names.

The parameters are stored with the run, so they hold no secret: a key, and whatever else is one,
is a reference.
"""

import os
from collections.abc import Mapping
from typing import Any, cast

from agentcompass.components.configuration.model_secrets import model_secrets
from agentcompass.components.configuration.secrets import BLOCK, REFERENCE, expand, hide, resolve
from agentcompass.components.configuration.spelling import nearest
from agentcompass.components.configuration.validation import validate
from agentcompass.components.contracts.analysis import ModelCheck
from agentcompass.components.contracts.errors import RequestError
from agentcompass.components.contracts.model import ModelAccess
from agentcompass.components.contracts.protocols import Component, ModelProvider
from agentcompass.components.contracts.run import ModelSpec, RunRequest
from agentcompass.components.registry import registry

MODEL_CHECK = "model_check"
BUILT_IN = ("scripted", "replay")
DEFAULT_PROTOCOL = "openai-chat"
PATIENCE = {"timeout": 120, "max_retry_seconds": 60}
"""Of a call, where the parameters say nothing: nobody waits ten minutes for a second opinion."""
_WRITE = 'write {"env": "NAME"}, the variable that holds it'


def model_check(params: Mapping[str, Any], place: str = "analysis-params") -> ModelCheck | None:
    """None: no model is to be asked. RequestError names what is wrong; calls nobody, and does not
    look at the key."""
    given = params.get(MODEL_CHECK)
    if given is None:
        return None
    field = f"{place}.{MODEL_CHECK}"
    if not isinstance(given, Mapping):
        raise RequestError(field, "is not an object with parameters")
    asked = validate(ModelCheck, _with_reference(given, field), field)
    _check_model(asked.model, f"{field}.model")
    return asked


def provider(spec: ModelSpec, place: str = "analysis-params") -> tuple[ModelProvider, list[str]]:
    """The model, and the secrets that reach it. RequestError: a variable is not set."""
    field, secrets = f"{place}.{MODEL_CHECK}.model", list[str]()
    component = _component(spec)
    params = _complete(spec)
    try:
        headers = {
            name: expand(value, f"{field}.params.headers.{name}", secrets)
            for name, value in (params.get("headers") or {}).items()
        }
        url = expand(spec.base_url, f"{field}.base_url", secrets)
        key = resolve(spec.api_key, f"{field}.api_key") if spec.api_key else None
    except RequestError as error:
        raise RequestError(error.field, error.problem, "export it first") from None
    if headers:  # of references only: others would have been refused
        params["headers"] = headers
    secrets += model_secrets(url, key, headers.values())
    parameters = validate(component.parameters, params, f"{field}.params")
    access = ModelAccess(name=spec.id, base_url=url, api_key=key or None)
    try:
        made = registry.create("models", protocol(spec), component, parameters, access)
    except RequestError as error:  # named for the run's own model
        _, under, name = error.field.partition("model-params.")
        where = f"{field}.params.{name}" if under else f"{field}.base_url"
        raise RequestError(where, error.problem, error.hint) from None
    return cast(ModelProvider, made), secrets


def secrets_of_check(request: RunRequest) -> list[str]:
    """To be masked in the run's records, where its agent could meet them.

    RequestError, before the run starts, if they are not set; a run that only judges asks for no
    key, and so its check will tell.
    """
    settings = request.execution
    asked = model_check(settings.analysis_params) if settings.enable_analysis else None
    if asked is None:
        return []
    if request.rescore is not None:
        key = asked.model.api_key
        return [os.environ[key.env]] if key is not None and os.environ.get(key.env) else []
    return provider(asked.model)[1]


def protocol(spec: ModelSpec) -> str:
    if spec.id in BUILT_IN:
        return spec.id
    return spec.api_protocol[0] if spec.api_protocol else DEFAULT_PROTOCOL


def _with_reference(given: Mapping[str, Any], field: str) -> dict[str, Any]:
    """`${NAME}` as a reference; a key itself is refused, and not repeated."""
    model = given.get("model")
    if not isinstance(model, Mapping):
        return dict(given)
    key = model.get("api_key")
    if isinstance(key, str):
        if not (found := REFERENCE.fullmatch(key)):
            raise RequestError(f"{field}.model.api_key", "would be stored with the run", _WRITE)
        key = {"env": found[1]}
    if isinstance(key, Mapping) and "block" in key or BLOCK.search(str(key)):
        raise RequestError(
            f"{field}.model.api_key", "a Secret block holds the run's own key only", _WRITE
        )
    return {**given, "model": {**model, "api_key": key}}


def _check_model(spec: ModelSpec, field: str) -> None:
    if not spec.id:
        raise RequestError(f"{field}.id", "is empty", "name the model at the endpoint")
    known = [name for name in registry.listings("models") if name not in BUILT_IN]
    for wanted in spec.api_protocol:
        if wanted not in known:
            raise RequestError(
                f"{field}.api_protocol", f"unknown protocol {wanted!r}", nearest(wanted, known)
            )
    if spec.id in BUILT_IN and spec.base_url:
        raise RequestError(
            f"{field}.base_url", f"the built-in model {spec.id} calls no endpoint", "leave it out"
        )
    if spec.id not in BUILT_IN and not spec.base_url.startswith(("http://", "https://")):
        raise RequestError(f"{field}.base_url", "is not an address", "it starts with http(s)://")
    if not isinstance(spec.params.get("headers", {}), Mapping):
        raise RequestError(f"{field}.params.headers", "is not an object")
    _, held = hide(spec.id, spec.base_url, "", (), spec.params, f"{field}.base_url")
    if held:
        place = "base_url" if "HEADER" not in next(iter(held)) else "params.headers"
        raise RequestError(
            f"{field}.{place}", "holds a secret, which would be stored with the run",
            "write ${NAME}, the variable that holds it",
        )  # fmt: skip
    validate(_component(spec).parameters, _complete(spec), f"{field}.params")


def _component(spec: ModelSpec) -> Component:
    return registry.load("models", protocol(spec))


def _complete(spec: ModelSpec) -> dict[str, Any]:
    return dict(spec.params) if spec.id in BUILT_IN else {**PATIENCE, **spec.params}
