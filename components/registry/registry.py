"""Find components by name: built-in folders, entry points, trusted directories.

Listing imports no component. One that is broken harms no other: it is an error only when it is
asked for.
"""

import importlib
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from agentcompass.components.configuration.spelling import nearest
from agentcompass.components.contracts.errors import AgentCompassError, RequestError
from agentcompass.components.contracts.protocols import Component
from agentcompass.components.registry.directories import content_hash, load_module, trusted
from agentcompass.components.registry.entry_points import installed
from agentcompass.components.registry.listing import OURS, Family, Listing, summary
from agentcompass.components.registry.soundness import wrong_export, wrong_shape

__all__ = ["FIELDS", "Family", "Listing", "create", "find", "listings", "load"]

FIELDS: dict[Family, str] = {
    "benchmarks": "benchmark",
    "harnesses": "harness",
    "environments": "environment",
    "recipes": "recipe",
    "models": "model protocol",
    "analyzers": "analyzer",
}
"""What a user calls one member of each family."""


def listings(family: Family, directories: Sequence[str] = ()) -> dict[str, Listing]:
    """Every registered component of a family, by id. A clash of ids names both origins.

    `directories`: trusted ones; only recipes come from them.
    """
    found = {item.id: item for item in _built_in(family)}
    for item in (*installed(family), *(trusted(directories) if family == "recipes" else ())):
        if (other := found.get(item.id)) is not None:
            raise RequestError(
                FIELDS[family],
                f"{item.id!r} is registered twice: {_place(other)} and {_place(item)}",
                "rename one of them" if item.path else "uninstall one of them",
            )
        found[item.id] = item
    return dict(sorted(found.items()))


def find(family: Family, component_id: str, directories: Sequence[str] = ()) -> Listing:
    """The listing of one component; an unknown id is refused with the nearest known ones."""
    known = listings(family, directories)
    if component_id not in known:
        raise RequestError(
            FIELDS[family],
            f"no {FIELDS[family]} named {component_id!r}",
            nearest(component_id, known) + f" (all: agentcompass list {_list_word(family)})",
        )
    return known[component_id]


def load(family: Family, component_id: str, directories: Sequence[str] = ()) -> Component:
    """Import one component. One that cannot be imported or used is named, with the reason.

    What comes from a trusted directory has its content in its version: edited is another version.
    """
    listing = find(family, component_id, directories)
    try:
        exported = _exported(listing)
    except (Exception, SystemExit) as error:  # a plugin may fail in any way
        raise _broken(family, listing, f"cannot be loaded: {_told(error)}") from error
    if problem := wrong_export(family, exported):
        raise _broken(family, listing, problem)
    assert isinstance(exported, Component)
    if listing.path is None:
        return exported
    return replace(exported, version=f"{exported.version}+{content_hash(listing.path)[:12]}")


def create(family: Family, component_id: str, component: Component, *given: Any) -> Any:
    """What the component makes of its parameters, checked to have what its family asks for."""
    try:
        made = component.create(*given)
    except (RequestError, AgentCompassError):
        raise
    except Exception as error:  # a plugin may fail in any way
        raise RequestError(
            FIELDS[family], f"{component_id!r} cannot be created: {_told(error)}"
        ) from error
    if problem := wrong_shape(family, made):
        raise RequestError(FIELDS[family], f"{component_id!r} {problem}")
    return made


def _exported(listing: Listing) -> object:
    if listing.path is not None:
        module, attribute = load_module(listing.path), "COMPONENT"
    else:
        name, _, attribute = listing.module.partition(":")
        module = importlib.import_module(name)
    if not hasattr(module, attribute):
        raise ImportError(f"it does not export {attribute}")
    return getattr(module, attribute)


def _broken(family: Family, listing: Listing, problem: str) -> RequestError:
    return RequestError(FIELDS[family], f"{listing.id!r} from {_place(listing)} {problem}")


def _told(error: BaseException) -> str:
    """On one line."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _place(item: Listing) -> str:
    return str(item.path) if item.path else f"{item.module} ({item.origin})"


@cache
def _built_in(family: Family) -> tuple[Listing, ...]:
    package = f"agentcompass.components.{family}"
    folder = Path(__file__).parent.parent / family
    return tuple(
        Listing(
            _built_in_id(family, path),
            "built in",
            summary(path),
            f"{package}.{path.stem}:COMPONENT",
            OURS,
        )
        for path in sorted(folder.iterdir())
        if not path.name.startswith(("_", "."))
        and (path.suffix == ".py" or (path / "__init__.py").is_file())
    )


def _built_in_id(family: Family, path: Path) -> str:
    return path.stem.replace("_", "-") if family == "models" else path.stem


def _list_word(family: Family) -> str:
    return {"environments": "env", "models": "model-protocol"}.get(family, FIELDS[family])
