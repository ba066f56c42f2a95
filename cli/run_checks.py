"""Everything about a request that can be told before Prefect is loaded or anything is written."""

from dataclasses import dataclass
from pathlib import Path

from agentcompass.cli.streams import complain
from agentcompass.components.contracts.errors import RequestError
from agentcompass.components.contracts.run import Rescore, RunPlan, RunRequest
from agentcompass.components.contracts.task import Dataset, Sample
from agentcompass.components.contracts.user_path import user_path
from agentcompass.components.execution.dependencies import ensure
from agentcompass.components.execution.parts import Parts, assemble
from agentcompass.components.execution.plan import resolve
from agentcompass.components.execution.prepare import load_samples
from agentcompass.components.execution.rescoring import resolve_rescoring
from agentcompass.components.execution.source import check_source
from agentcompass.components.results.paths import (
    check_results_dir,
    check_run_id,
    check_run_name,
    namespace,
)


@dataclass(frozen=True)
class Checked:
    """A request that can be done as written."""

    plan: RunPlan
    parts: Parts
    dataset: Dataset
    samples: tuple[Sample, ...]
    folder: Path
    """The namespace the run's folder will stand in."""


def check(request: RunRequest, *, install: bool = True) -> Checked:
    """Resolve, create the components, select the tasks, look at the results folder.

    RequestError for whatever the user has to change. Nothing is written to the results. Missing
    libraries are installed, if the request allows it and `install` is on.
    """
    if not install:
        off = request.runtime.model_copy(update={"auto_install_dependencies": False})
        ensure(request.model_copy(update={"runtime": off}))
    else:
        ensure(request, lambda line: complain(f"agentcompass: {line}"))
    plan = resolve_rescoring(request) if request.rescore else resolve(request)
    folder = _place(request)
    parts = assemble(plan)
    dataset, samples = load_samples(plan, parts)
    return Checked(plan, parts, dataset, samples, folder)


def _place(request: RunRequest) -> Path:
    runtime = request.runtime
    if request.rescore:
        return _place_beside(request.rescore)
    results = user_path(runtime.results_dir, "results-dir").absolute()
    check_run_name(runtime.run_name)
    check_run_id(runtime.run_id)
    folder = namespace(
        results, runtime.run_name, request.model.id, request.benchmark.id, request.harness.id
    )
    check_results_dir(folder)
    if runtime.run_id and (folder / runtime.run_id).exists():
        raise RequestError(
            "run-id", f"{runtime.run_id!r} exists already in {folder}", "choose another"
        )
    if runtime.reuse:
        check_source(folder, runtime.reuse)
    return folder


def _place_beside(rescore: Rescore) -> Path:
    place = Path(rescore.into or rescore.run_dir)
    check_results_dir(place.parent)
    if rescore.into and (place.exists() or place.is_symlink()):
        raise RequestError("output", f"{place} exists already", "give another path")
    if rescore.into:
        check_run_id(place.name)
    return place.parent
