"""What one component lacks: modules it needs, and the requirements that would bring them."""

import importlib.util
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from agentcompass.components.registry import registry
from agentcompass.components.registry.registry import Family


@dataclass(frozen=True)
class Missing:
    """What one component lacks."""

    family: Family
    component_id: str
    modules: tuple[str, ...]
    requirements: tuple[str, ...]
    """As its distribution asks for them; empty: nobody says what brings these modules."""
    trusted: bool
    """Built in, or installed on purpose: it may have its libraries installed."""

    def __str__(self) -> str:
        return f"{self.component_id} needs {', '.join(self.modules)}; {self.way_out}"

    @property
    def way_out(self) -> str:
        if not self.trusted:
            return "a recipe of a directory brings no libraries: install what it asks for"
        if not self.requirements:
            return "its distribution does not say what brings that: see its documentation"
        return f"pip install {' '.join(shlex.quote(one) for one in self.requirements)}"


def missing(family: Family, component_id: str, directories: tuple[str, ...] = ()) -> Missing | None:
    component = registry.load(family, component_id, directories)
    lacks = tuple(name for name in component.requires if not importable(name))
    if not lacks:
        return None
    owner = registry.find(family, component_id, directories).distribution
    wanted = tuple(requirements(owner, component.extra)) if owner else ()
    return Missing(family, component_id, lacks, wanted, trusted=owner is not None)


def requirements(distribution: str, extra: str) -> Iterator[str]:
    """What an extra brings, by the names of other distributions; those here already included.

    A requirement of the distribution on an extra of its own is followed, never handed on: an
    index may know another package by that name.
    """
    yield from dict.fromkeys(_requirements(distribution, extra, set()))


def _requirements(distribution: str, extra: str, seen: set[tuple[str, str]]) -> Iterator[str]:
    own = canonicalize_name(distribution)
    if (own, extra) in seen:
        return
    seen.add((own, extra))
    try:
        declared = metadata.requires(distribution) or []
    except metadata.PackageNotFoundError:
        return
    for text in declared:
        requirement = Requirement(text)
        marker = requirement.marker
        plain = marker is None or marker.evaluate({"extra": ""})
        if extra and (plain or marker is None or not marker.evaluate({"extra": extra})):
            continue
        if not extra and (not plain or _satisfied(requirement)):
            continue
        name = canonicalize_name(requirement.name)
        if name in (own, "agentcompass"):
            for inner in sorted(requirement.extras):
                yield from _requirements(name, inner, seen)
            continue
        requirement.marker = None
        yield str(requirement)


def _satisfied(requirement: Requirement) -> bool:
    try:
        version = metadata.version(requirement.name)
    except metadata.PackageNotFoundError:
        return False
    return requirement.specifier.contains(version, prereleases=True)


def importable(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # of its parent
        return False
    except ValueError:  # loaded, by something that gave it no spec
        return True
