"""Secrets typed among the parameters: variables of an environment are held, others refused.

What a request holds is stored with the run and by Prefect, so a secret may only be named in it.
Name and value must both tell: neither `max_tokens: 4096` nor `reward_key: score` is a secret.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from agentcompass.components.analyzers._keys import keys
from agentcompass.components.configuration.secrets import (
    HELD_VARIABLE,
    REFERENCE,
    hide,
    looks_secret,
)
from agentcompass.components.contracts.errors import RequestError
from agentcompass.components.contracts.run import RunRequest

VARIABLES = ("env", "run_env", "evaluation_env")
"""Parameters of every environment that hold variables."""
SHORTEST_VARIABLE = 8
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")

_SECRET_NAME = re.compile(
    r"(?:^|_)(?:(?:api|access|secret|private|auth)_?keys?|secrets?|passwords?|passwd|passphrase"
    r"|credentials?|authorization|bearer|[a-z]*token)$"
)
_MARKER_NAME = re.compile(
    r"(?:^|_)(?:stop|eos|bos|pad|unk|mask|sep|cls|special|start|end|first|last|next|think\w*)_token$"
)
"""Tokens of a text, not of an account."""
_TOKEN = re.compile(r"(?!~?\.{0,2}/)(?=.*\d)[A-Za-z0-9_./+=-]{16,}")

_PASSWORD_NAME = re.compile(r"(?i)passw|passphrase|secret")
_HARMLESS_NAME = re.compile(
    r"(?i)author(?!i)|tokeniz|keyboard|keymap|design|signal"
    r"|_(?:file|path|dir|url|uri|host|id|name|type|field|user|username|sock|header|limit|ttl)$"
)
_PATH_OR_ADDRESS = re.compile(r"~?\.{0,2}/(?:[A-Za-z]?[a-z0-9_.-]*)(?:/|$)|[A-Za-z][\w+.-]*://")
_WITH_PASSWORD = re.compile(r"[A-Za-z][\w+.-]*://[^/\s:@]*:[^/\s@]+@")
_WORDS_OR_NUMBER = re.compile(r"(?:(?:[a-z]+|[A-Z]+|[A-Z][a-z]+)(?:[_.,:-]|$))+|[-+\d.,:]+")
_SWITCHES = frozenset(
    ["disabled", "enabled", "required", "optional", "anonymous", "undefined", "keychain"]
)


def hide_variables(params: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """An environment's parameters with references for the secrets among its variables, and these
    secrets to hold. References stay as they are."""
    held: dict[str, str] = {}
    shown = dict(params)
    for field, name, value in _variables(params):
        if _is_secret_variable(name, value):
            reference = HELD_VARIABLE + re.sub(r"\W", "_", f"{field}_{name}").upper()
            while held.get(reference, value) != value:  # `a-b` beside `a_b`
                reference += "_"
            held[reference] = value
            shown[field] = {**shown[field], name: f"${{{reference}}}"}
    return shown, held


def place_of(held: str, request: RunRequest) -> str:
    """Where the variable was typed that is held under this name: `env-params.env.OPENAI_KEY`."""
    for field, name, value in _variables(request.environment.params):
        if value == f"${{{held}}}":
            return f"env-params.{field}.{name}"
    return "env-params"


def refuse_secrets(request: RunRequest, *, stored: bool = False) -> None:
    """RequestError names the first field that holds a secret, and never the secret.

    `stored`: the request comes from the Prefect API, which keeps what it was given.
    """
    for field, way_out in _found(request):
        if stored:
            raise RequestError(
                field,
                "holds a secret, which Prefect has stored with this flow run",
                f"delete the flow run; {way_out}",
            )
        raise RequestError(field, "holds a secret, which would be stored with the run", way_out)


def _found(request: RunRequest) -> Iterator[tuple[str, str]]:
    """Fields that hold a secret, each with the way out."""
    by_name = "name it: '${NAME}', a variable where the run is carried out"
    model, environment = request.model, dict(request.environment.params)
    _, held = hide(model.id, model.base_url, "", (), {})
    if held:
        yield "model-base-url", by_name
    headers = model.params.get("headers")
    for name, value in headers.items() if isinstance(headers, Mapping) else ():
        if isinstance(value, str) and looks_secret(str(name)) and not REFERENCE.search(value):
            yield f"model-params.headers.{name}", by_name
    for field, name, value in _variables(environment):
        if _is_secret_variable(name, value):
            yield f"env-params.{field}.{name}", by_name
    others = {name: value for name, value in environment.items() if name not in VARIABLES}
    body = {name: value for name, value in model.params.items() if name != "headers"}
    key = "give it with --model-api-key, or in model-params.headers"
    own = "leave it out, and export the environment variable that the component reads"
    for place, params, way_out in (
        ("model-params", body, key),
        ("benchmark-params", request.benchmark.params, own),
        ("harness-params", request.harness.params, own),
        ("env-params", others, own),
        ("analysis-params", request.execution.analysis_params, 'write {"env": "NAME"}, a variable'),
    ):
        for field in _secrets_in(params, place):
            yield field, way_out


def _variables(params: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Parameter, name and value; what is no text is left to the validation."""
    for field in VARIABLES:
        given = params.get(field)
        for name, value in given.items() if isinstance(given, Mapping) else ():
            if isinstance(name, str) and isinstance(value, str):
                yield field, name, value


def _secrets_in(value: Any, place: str, name: str = "") -> Iterator[str]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _secrets_in(inner, f"{place}.{key}", str(key))
    elif isinstance(value, list | tuple):
        for number, inner in enumerate(value):
            yield from _secrets_in(inner, f"{place}.{number}", name)
    elif isinstance(value, str) and _is_secret_parameter(name, value):
        yield place


def _is_secret_parameter(name: str, value: str) -> bool:
    plain = _CAMEL.sub("_", name).replace("-", "_").lower()
    if not _SECRET_NAME.search(plain) or _MARKER_NAME.search(plain):
        return False
    return _live(value) or bool(_TOKEN.fullmatch(re.sub(r"^(?:Bearer|Basic) ", "", value)))


def _is_secret_variable(name: str, value: str) -> bool:
    value = REFERENCE.sub("", value)  # a secret that is named: `http://me:${PASSWORD}@proxy`
    if _live(value) or _WITH_PASSWORD.match(value):
        return True
    if not looks_secret(name) or _HARMLESS_NAME.search(name):
        return False
    if len(value) < SHORTEST_VARIABLE or re.search(r"\s", value) or _PATH_OR_ADDRESS.match(value):
        return False
    if _PASSWORD_NAME.search(name):
        return value.lower() not in _SWITCHES
    return not _WORDS_OR_NUMBER.fullmatch(value)


def _live(value: str) -> bool:
    return next(keys(value), None) is not None
