"""Find components by name: built-in folders and entry points. Listing imports no component."""

import importlib
import re
from dataclasses import dataclass
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Literal

from agentcompass.components.configuration.spelling import nearest
from agentcompass.components.contracts.errors import RequestError
from agentcompass.components.contracts.protocols import Component

Family = Literal["benchmarks", "harnesses", "environments", "recipes", "models", "analyzers"]

FIELDS: dict[Family, str] = {
    "benchmarks": "benchmark",
    "harnesses": "harness",
    "environments": "environment",
    "recipes": "recipe",
    "models": "model protocol",
    "analyzers": "analyzer",
}
"""What a user calls one member of each family."""


# Not `ast`: in Python 3.11 two threads that parse at once break each other (SystemError).
_FIRST_LINE = re.compile(
    r"""(?:\s|#.*)*[rR]?(?P<quote>\"{3}|'{3}|"|')(?P<line>.*?)(?:(?P=quote)|\n)"""
)


@dataclass(frozen=True)
class Listing:
    """A registered component, not imported."""

    id: str
    origin: str
    """`built in`, or the distribution that brings it."""
    summary: str
    """First line of its file's docstring."""
    module: str


def listings(family: Family) -> dict[str, Listing]:
    """Every registered component of a family, by id. A clash of ids names both origins."""
    found = {item.id: item for item in _built_in(family)}
    for entry in entry_points(group=f"agentcompass.{family}"):
        item = _from_entry_point(entry)
        if (other := found.get(item.id)) is not None:
            raise RequestError(
                FIELDS[family],
                f"{item.id!r} is registered twice: {other.module} ({other.origin}) "
                f"and {item.module} ({item.origin})",
                "uninstall one of them",
            )
        found[item.id] = item
    return dict(sorted(found.items()))


def find(family: Family, component_id: str) -> Listing:
    """The listing of one component; an unknown id is refused with the nearest known ones."""
    known = listings(family)
    if component_id not in known:
        raise RequestError(
            FIELDS[family],
            f"no {FIELDS[family]} named {component_id!r}",
            nearest(component_id, known) + f" (all: agentcompass list {_list_word(family)})",
        )
    return known[component_id]


def load(family: Family, component_id: str) -> Component:
    """Import one component. A file that cannot be imported is named, with the reason."""
    listing = find(family, component_id)
    module, _, attribute = listing.module.partition(":")
    try:
        component = getattr(importlib.import_module(module), attribute or "COMPONENT")
    except Exception as error:  # a plugin may fail in any way; the user must learn which
        raise RequestError(
            FIELDS[family], f"{component_id!r} ({listing.module}) cannot be loaded: {error!r}"
        ) from error
    if not isinstance(component, Component):
        raise RequestError(
            FIELDS[family], f"{component_id!r} ({listing.module}) does not export a Component"
        )
    return component


@cache
def _built_in(family: Family) -> tuple[Listing, ...]:
    package = f"agentcompass.components.{family}"
    folder = Path(__file__).parent.parent / family
    return tuple(
        Listing(
            _built_in_id(family, path),
            "built in",
            _summary(path),
            f"{package}.{path.stem}:COMPONENT",
        )
        for path in sorted(folder.iterdir())
        if not path.name.startswith(("_", "."))
        and (path.suffix == ".py" or (path / "__init__.py").is_file())
    )


def _built_in_id(family: Family, path: Path) -> str:
    return path.stem.replace("_", "-") if family == "models" else path.stem


def _from_entry_point(entry: EntryPoint) -> Listing:
    distribution = entry.dist.name if entry.dist else "unknown distribution"
    return Listing(entry.name, distribution, f"from {distribution}", entry.value)


def _summary(path: Path) -> str:
    source = path / "__init__.py" if path.is_dir() else path
    found = _FIRST_LINE.match(source.read_text(encoding="utf-8"))
    return found["line"].strip().rstrip(".") if found else ""


def _list_word(family: Family) -> str:
    return {"environments": "env", "models": "model-protocol"}.get(family, FIELDS[family])
