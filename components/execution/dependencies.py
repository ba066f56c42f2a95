"""Libraries that planned components need and do not find here: named, or installed when allowed.

A component says which modules it needs and which extra of its own distribution brings them
(`Component.requires`, `.extra`). Installed are exactly the requirements of that extra, next to
what is there: nothing that is installed already changes its version.
"""

import importlib
import importlib.util
import logging
import shlex
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from importlib import metadata

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from agentcompass.components.contracts.errors import PreflightRefused
from agentcompass.components.contracts.run import RunRequest
from agentcompass.components.execution.installing import InstallFailed, install
from agentcompass.components.execution.plan import planned_component
from agentcompass.components.execution.recipes import matching_recipes
from agentcompass.components.registry import registry
from agentcompass.components.registry.registry import FIELDS, Family

log = logging.getLogger(__name__)


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


def ensure(request: RunRequest, note: Callable[[str], None] = log.info) -> None:
    """Install what is missing, if the request allows it. Blocking, for minutes perhaps.

    Raises PreflightRefused if that fails, or if the benchmark cannot even load its data. What
    else is missing is told by preflight, with everything else that is wrong.
    """
    if request.runtime.auto_install_dependencies:
        _install(request, note)
    lacking = _planned(request)
    if any(one.family == "benchmarks" for one in lacking):
        raise PreflightRefused(tuple(_lines(lacking)))


def problems(request: RunRequest) -> list[str]:
    """One line for each planned component that lacks something."""
    return list(_lines(_planned(request)))


def missing(family: Family, component_id: str, directories: tuple[str, ...] = ()) -> Missing | None:
    component = registry.load(family, component_id, directories)
    lacks = tuple(name for name in component.requires if not _importable(name))
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


def _install(request: RunRequest, note: Callable[[str], None]) -> None:
    lacking = [one for one in _planned(request) if one.trusted and one.requirements]
    wanted = tuple(dict.fromkeys(text for one in lacking for text in one.requirements))
    if not wanted:
        return
    note(f"installing {', '.join(wanted)}")
    try:
        done = install(wanted)
    except InstallFailed as error:
        raise PreflightRefused((f"auto-install-dependencies: {error}",)) from None
    note(f"installed: {done}")
    importlib.invalidate_caches()
    if still := [f"{one.component_id}: {name}" for one in lacking for name in _absent(one)]:
        line = f"installed, but these modules are still not there: {', '.join(still)}"
        raise PreflightRefused((f"auto-install-dependencies: {line}",))


def _absent(one: Missing) -> list[str]:
    return [name for name in one.modules if not _importable(name)]


def _planned(request: RunRequest) -> list[Missing]:
    """What every component of the plan lacks."""
    _, _, benchmark = planned_component("benchmarks", request.benchmark, "benchmark-params")
    chosen: list[tuple[Family, str]] = [
        ("benchmarks", request.benchmark.id),
        ("harnesses", request.harness.id),
        ("environments", request.environment.id),
        *(("recipes", one.id) for one in matching_recipes(request, benchmark)),
    ]
    directories = request.runtime.recipe_dirs
    found = (missing(family, name, directories) for family, name in chosen)
    return [one for one in found if one is not None]


def _lines(lacking: Iterable[Missing]) -> Iterator[str]:
    for one in lacking:
        yield f"{FIELDS[one.family]}: {one}"


def _importable(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # of its parent
        return False
    except ValueError:  # loaded, by something that gave it no spec
        return True
