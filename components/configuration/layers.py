"""Configuration files, from the weakest to the strongest:

    built in                                       the components' own defaults
    ~/.config/agentcompass/config.yaml             the user's (the platform's own folder)
    agentcompass.yaml                              the project's: the outermost first, from the
                                                   repository's root down to the working directory
    each --config FILE                             in order
    the command line

Mappings merge deeply; lists and scalars replace, and so do network policies ({allow: …} and
{deny: …}) and the two ways to name an image. Sections: `benchmarks.<id>`, `harnesses.<id>`,
`environments.<id>`, `analyzers.<id>`, `execution`, `runtime`.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import platformdirs

from agentcompass.components.configuration.json_value import read_object
from agentcompass.components.configuration.merging import merged
from agentcompass.components.configuration.references import with_environment
from agentcompass.components.configuration.spelling import nearest
from agentcompass.components.contracts.errors import RequestError

PROJECT_FILE = "agentcompass.yaml"
BY_ID = ("benchmarks", "harnesses", "environments", "analyzers")
SECTIONS = (*BY_ID, "execution", "runtime")
TRUSTED_ONLY = {
    "runtime.recipe_dirs": "which code is loaded",
    "runtime.auto_install_dependencies": "which code is loaded",
    "environments.host_process.setup.commands": "what is run on this machine",
    "environments.host_process.setup.files": "what is copied from this machine",
    "execution.analysis_params.model_check": "which endpoint is sent records and a key",
}
"""What a cloned project's file must never say."""

Trust = Literal["user", "project", "given"]


@dataclass(frozen=True)
class Layer:
    name: str
    """For people: the file's path, or `command line`."""
    values: Mapping[str, Any]


@dataclass(frozen=True)
class Configuration:
    """What the files say together, and which of them said each leaf."""

    values: Mapping[str, Any] = field(default_factory=dict)
    origins: Mapping[str, str] = field(default_factory=dict)
    """Dotted path of a leaf → the layer's name."""
    layers: tuple[Layer, ...] = ()

    def section(self, name: str, component_id: str | None = None) -> dict[str, Any]:
        values = self.values.get(name, {})
        return dict(values if component_id is None else values.get(component_id, {}))


def read_configuration(
    given: Sequence[str] = (), *, directory: Path | None = None, user_file: Path | None = None
) -> Configuration:
    """All files that apply, merged. RequestError names the file and the key that is wrong.

    `given`: the --config files. `directory`: where to look for the project's; the current one.
    """
    return merge_layers(
        [
            _layer(path, trust)
            for path, trust in _files(given, directory or Path.cwd(), user_file or users_file())
        ]
    )


def users_file() -> Path:
    return Path(platformdirs.user_config_dir("agentcompass")) / "config.yaml"


def _files(given: Sequence[str], directory: Path, user: Path) -> Iterator[tuple[Path, Trust]]:
    if user.is_file():
        yield user, "user"
    for folder in reversed(_up_to_repository(directory)):
        if (folder / PROJECT_FILE).is_file():
            yield folder / PROJECT_FILE, "project"
    for name in given:
        yield Path(name), "given"


def _up_to_repository(directory: Path) -> list[Path]:
    """The directory and its parents up to the repository's root; alone outside of one."""
    folders = [directory, *directory.parents]
    for count, folder in enumerate(folders, 1):
        if (folder / ".git").exists():
            return folders[:count]
    return folders[:1]


def _layer(path: Path, trust: Trust) -> Layer:
    values = read_object(f"@{path}", "config")
    _check(values, str(path), trust)
    return Layer(str(path), with_environment(values, str(path)))


def _check(values: Mapping[str, Any], name: str, trust: Trust) -> None:
    for section, content in values.items():
        if section not in SECTIONS:
            raise RequestError(f"{name}: {section}", "unknown section", nearest(section, SECTIONS))
        if not isinstance(content, Mapping):
            raise RequestError(f"{name}: {section}", "is not a mapping")
        for key, inner in content.items():
            if section in BY_ID and not isinstance(inner, Mapping):
                raise RequestError(f"{name}: {section}.{key}", "is not a mapping of parameters")
    for place, what in TRUSTED_ONLY.items() if trust == "project" else ():
        if _at(values, place) is not None:
            raise RequestError(
                f"{name}: {place}",
                f"a project's file cannot say {what}",
                f"set it in {users_file()}, or give it on the command line",
            )


def _at(values: Any, place: str) -> Any:
    for key in place.split("."):
        values = values.get(key) if isinstance(values, Mapping) else None
    return values


def merge_layers(layers: Sequence[Layer]) -> Configuration:
    values: dict[str, Any] = {}
    origins: dict[str, str] = {}
    for layer in layers:
        values = merged(values, layer.values)
        for leaf, _ in leaves(layer.values):
            origins[leaf] = layer.name
    kept = dict(leaves(values))
    origins = {leaf: name for leaf, name in origins.items() if leaf in kept}
    return Configuration(values, origins, tuple(layers))


def leaves(values: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    """Dotted path and value of everything that is not a mapping, or an empty one."""
    for key, value in values.items():
        name = f"{path}.{key}" if path else str(key)
        if isinstance(value, Mapping) and value:
            yield from leaves(value, name)
        else:
            yield name, value
