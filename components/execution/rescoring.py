"""A run that judges again what agents left in an earlier one: what it plans, and where it stands.

The benchmark and the environment are today's; harness and model are those of the earlier run,
which this one neither loads nor calls. Its tasks are the earlier run's own.
"""

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, cast

from agentcompass.components.configuration.merging import merged
from agentcompass.components.configuration.spelling import nearest
from agentcompass.components.configuration.validation import validate
from agentcompass.components.contracts.errors import RequestError
from agentcompass.components.contracts.protocols import Benchmark
from agentcompass.components.contracts.run import (
    Choice,
    ExecutionSettings,
    Rescore,
    RunPlan,
    RunRequest,
    RuntimeSettings,
)
from agentcompass.components.contracts.task import Dataset, Sample
from agentcompass.components.contracts.user_path import user_path
from agentcompass.components.execution.parts import Parts
from agentcompass.components.execution.plan import planned_component
from agentcompass.components.execution.provider_names import check_provider_names
from agentcompass.components.execution.rebuilding import planned, refuse_if_held
from agentcompass.components.execution.recipes import matching_recipes
from agentcompass.components.execution.typed_secrets import refuse_secrets
from agentcompass.components.registry import registry
from agentcompass.components.results.paths import RunFolder, reserve
from agentcompass.components.results.store import RunStore

_SELECTION = ("sample_ids", "categories", "limit", "seed")


def rescore_request(
    source: RunStore,
    into: str = "",
    *,
    benchmark_params: Mapping[str, Any] | None = None,
    env_params: Mapping[str, Any] | None = None,
    execution: Mapping[str, Any] | None = None,
    runtime: Mapping[str, Any] | None = None,
) -> RunRequest:
    """The request of the earlier run, to be judged again. What is given lies over it.

    Not taken from its folder, which may be somebody else's: directories of code that is trusted,
    the leave to install, limits that hold for other runs too. RequestError names what is wrong.
    """
    refuse_if_held(source)
    _, plan = planned(source)
    earlier = plan.request
    for name in benchmark_params or {}:
        if name in _SELECTION:
            raise RequestError(
                f"benchmark-params.{name}", "the tasks of the run are judged, all of them"
            )
    place = user_path(into, "output").absolute() if into else source.folder.root
    if into and source.folder.root.absolute() in place.parents:
        raise RequestError("output", "lies in the run that is judged again, which is only read")
    settings = {
        "data_dir": earlier.runtime.data_dir,
        "timeout_seconds": earlier.runtime.timeout_seconds,
        **(runtime or {}),
        "results_dir": str(place.parent),
    }
    below = earlier.execution.model_dump(mode="json", exclude_defaults=True)
    request = earlier.model_copy(
        update={
            "benchmark": _over(earlier.benchmark, benchmark_params),
            "environment": _over(earlier.environment, env_params),
            "execution": validate(
                ExecutionSettings, merged(below, execution or {}), "execution-params"
            ),
            "runtime": validate(RuntimeSettings, settings, "rescore"),
            "rescore": Rescore(run_dir=str(source.folder.root), into=str(place) if into else ""),
        }
    )
    refuse_secrets(request)
    return request


def _over(choice: Choice, params: Mapping[str, Any] | None) -> Choice:
    return choice.model_copy(update={"params": merged(choice.params, params or {})})


def resolve_rescoring(request: RunRequest) -> RunPlan:
    """The earlier run's plan with the benchmark and the environment as they are here and now."""
    refuse_secrets(request, stored=True)  # a command line's was searched when it was built
    check_provider_names(request.runtime)
    _, earlier = planned(source_of(request))
    component, parameters, benchmark = planned_component(
        "benchmarks", request.benchmark, "benchmark-params"
    )
    made = cast(Benchmark, registry.create("benchmarks", benchmark.id, component, parameters))
    if made.primary != earlier.primary:
        raise RequestError(
            "RUN_DIR",
            f"the run reports `{earlier.primary}`, and {benchmark.id} reports `{made.primary}` now",
        )
    _, _, environment = planned_component("environments", request.environment, "env-params")
    return earlier.model_copy(
        update={
            "request": request,
            "benchmark": benchmark,
            "environment": environment,
            "recipes": matching_recipes(request, benchmark),
        }
    )


def load_earlier_samples(plan: RunPlan, parts: Parts) -> tuple[Dataset, tuple[Sample, ...]]:
    """The whole data set, and the tasks of the earlier run in their order. Blocking."""
    document, _ = planned(source_of(plan.request))
    dataset = parts.benchmark.load(user_path(plan.request.runtime.data_dir, "data-dir"))
    known = {sample.task.id: sample for sample in dataset.samples}
    if gone := [name for name in document["tasks"] if name not in known]:
        raise RequestError(
            "RUN_DIR",
            f"{len(gone)} tasks of the run are not in the data ({dataset.source}): "
            + ", ".join(gone[:5]),
            nearest(gone[0], known),
        )
    return dataset, tuple(known[name] for name in document["tasks"])


def source_of(request: RunRequest) -> RunStore:
    assert request.rescore is not None
    return RunStore(RunFolder(Path(request.rescore.run_dir)))


def reserve_beside(request: RunRequest, started: datetime) -> RunFolder:
    """The folder of the new run, made for this caller alone."""
    assert request.rescore is not None
    if request.rescore.into:
        place = Path(request.rescore.into)
        return reserve(place.parent, place.name, started)
    return reserve(Path(request.rescore.run_dir).parent, "", started)
