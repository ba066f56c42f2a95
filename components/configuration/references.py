"""`{env: NAME}` and `${NAME}` in configuration files.

`{env: NAME}` stands for a whole value and is read as a YAML scalar would be (`8` is a number);
`${NAME}` may stand inside a string and stays text. A variable that is not set is an error. What
is read becomes part of the stored request, so variables that hold secrets are refused, but for the
places that keep the reference itself until a sandbox opens: the variables of an environment.
"""

import os
import re
from collections.abc import Mapping
from typing import Any

from agentcompass.components.configuration.secrets import REFERENCE, looks_secret
from agentcompass.components.configuration.yaml_value import read_yaml
from agentcompass.components.contracts.errors import RequestError

_KEPT = re.compile(
    r"environments\.[^.]+\.(run_|evaluation_)?env\.[^.]+"
    r"|execution\.analysis_params\.model_check\.model\.(api_key|base_url|params\.headers\.[^.]+)"
)
"""Values that stay references: they are read when a sandbox opens, or the model is asked."""


def with_environment(values: Mapping[str, Any], source: str) -> dict[str, Any]:
    """The same mapping with its references read. RequestError names the place."""
    return {key: _read(value, str(key), source) for key, value in values.items()}


def _read(value: Any, path: str, source: str) -> Any:
    if isinstance(value, Mapping):
        if set(value) == {"env"} and isinstance(value["env"], str):
            return _whole(value["env"], path, source)
        return {key: _read(inner, f"{path}.{key}", source) for key, inner in value.items()}
    if isinstance(value, list):
        return [_read(item, f"{path}.{number}", source) for number, item in enumerate(value)]
    if isinstance(value, str) and not _KEPT.fullmatch(path):
        return REFERENCE.sub(lambda found: _variable(found[1], path, source), value)
    if isinstance(value, str):
        for found in REFERENCE.finditer(value):
            _set(found[1], path, source)
    return value


def _whole(name: str, path: str, source: str) -> Any:
    if _KEPT.fullmatch(path):
        _set(name, path, source)
        return f"${{{name}}}"
    text = _variable(name, path, source)
    try:
        value = read_yaml(text, path)
    except RequestError:
        return text
    return text if isinstance(value, dict | list) else value


def _variable(name: str, path: str, source: str) -> str:
    if looks_secret(name):
        raise RequestError(
            f"{source}: {path}",
            f"{name} looks like a secret, and this value would be stored with the run",
            "give keys with --model-api-key, and sandbox variables under environments.<id>.env",
        )
    return _set(name, path, source)


def _set(name: str, path: str, source: str) -> str:
    if name not in os.environ:
        raise RequestError(
            f"{source}: {path}", f"variable {name} is not set", f"export {name}=… first"
        )
    return os.environ[name]
