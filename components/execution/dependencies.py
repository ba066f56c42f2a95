"""Libraries that planned components need and do not find here: named, or installed when allowed.

A component says which modules it needs and which extra of its own distribution brings them
(`Component.requires`, `.extra`). Installed are exactly the requirements of that extra, next to
what is there: nothing that is installed already changes its version.
"""

import importlib
import logging
from collections.abc import Callable, Iterable, Iterator

from agentcompass.components.contracts.errors import PreflightRefused
from agentcompass.components.contracts.run import RunRequest
from agentcompass.components.execution.analysis import SELECTION, check_params
from agentcompass.components.execution.installing import InstallFailed, install
from agentcompass.components.execution.missing import Missing, importable, missing
from agentcompass.components.execution.plan import planned_component
from agentcompass.components.execution.recipes import matching_recipes
from agentcompass.components.registry.registry import FIELDS, Family

log = logging.getLogger(__name__)


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
    return [name for name in one.modules if not importable(name)]


def _planned(request: RunRequest) -> list[Missing]:
    """What every component of the plan lacks. Of the analyzers only those that are asked for by
    name are the plan's: another one that cannot work is named by the analysis, and harms nothing.
    """
    _, _, benchmark = planned_component("benchmarks", request.benchmark, "benchmark-params")
    chosen: list[tuple[Family, str]] = [
        ("benchmarks", request.benchmark.id),
        ("environments", request.environment.id),
        *(("recipes", one.id) for one in matching_recipes(request, benchmark)),
    ]
    if request.rescore is None:
        chosen.append(("harnesses", request.harness.id))
    if request.execution.enable_analysis:
        check_params(request.execution.analysis_params)
        selected = request.execution.analysis_params.get(SELECTION) or ()
        chosen += [("analyzers", name) for name in selected]
    directories = request.runtime.recipe_dirs
    found = (missing(family, name, directories) for family, name in chosen)
    return [one for one in found if one is not None]


def _lines(lacking: Iterable[Missing]) -> Iterator[str]:
    for one in lacking:
        yield f"{FIELDS[one.family]}: {one}"
