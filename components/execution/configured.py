"""The configuration files of a run, each checked against what it configures."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from agentcompass.components.configuration.layers import (
    BY_ID,
    Configuration,
    Layer,
    read_configuration,
)
from agentcompass.components.configuration.validation import validate
from agentcompass.components.contracts.errors import RequestError
from agentcompass.components.contracts.run import ExecutionSettings, RuntimeSettings
from agentcompass.components.execution.provider_names import check_provider_names
from agentcompass.components.registry import registry

MODELS: Mapping[str, type[BaseModel]] = {
    "execution": ExecutionSettings,
    "runtime": RuntimeSettings,
}


def configured(given: Sequence[str] = (), *, directory: Path | None = None) -> Configuration:
    """All files that apply here, merged. RequestError names the file, the key and the way out."""
    configuration = read_configuration(given, directory=directory)
    for layer in configuration.layers:
        _check(layer)
    return configuration


def _check(layer: Layer) -> None:
    for section, values in layer.values.items():
        place = f"{layer.name}: {section}"
        if section in BY_ID:
            for component_id, params in values.items():
                _check_component(section, component_id, params, place)
        else:
            settings = validate(MODELS[section], values, place)
            if isinstance(settings, RuntimeSettings):
                check_provider_names(settings, place)


def _check_component(
    section: str, component_id: str, params: Mapping[str, Any], place: str
) -> None:
    try:
        component = registry.load(section, component_id)  # type: ignore[arg-type]
    except RequestError as error:
        raise RequestError(f"{place}.{component_id}", error.problem, error.hint) from None
    validate(component.parameters, params, f"{place}.{component_id}")
