"""The numbers of a run made again from its details: metrics.json, attempts.parquet, summary.md."""

import logging
from typing import Any, cast

from pydantic import ValidationError

from agentcompass.components.configuration.validation import validate
from agentcompass.components.contracts.errors import AgentCompassError, RequestError
from agentcompass.components.contracts.invalid import first_problem
from agentcompass.components.contracts.parameters import BenchmarkParameters
from agentcompass.components.contracts.protocols import Benchmark
from agentcompass.components.contracts.run import RunPlan
from agentcompass.components.execution.conclusion import write_numbers
from agentcompass.components.registry import registry
from agentcompass.components.results.lease import holder
from agentcompass.components.results.metrics_record import Metrics
from agentcompass.components.results.store import RunStore

log = logging.getLogger(__name__)

_COUNTED_BY = ("unscored", "aggregation")


def rebuild(store: RunStore) -> Metrics:
    """Write them again, and what the benchmark exports. Reads no data set and calls nobody.

    RequestError if the folder tells no plan or a process works in it; DamagedRecord for a detail
    that cannot be read.
    """
    refuse_if_held(store)
    document, plan = planned(store)
    categories = document.get("categories") or {}
    tasks: dict[str, str | None] = {name: categories.get(name) for name in document["tasks"]}
    tasks |= {d.task_id: d.category for d in store.details() if d.task_id in tasks}
    counted = {name: plan.benchmark.params[name] for name in _COUNTED_BY}
    parameters = validate(BenchmarkParameters, counted, "benchmark-params")
    data = {"source": "", "revision": None, "content_hash": "", **document.get("dataset", {})}
    data.setdefault("tasks", len(tasks))
    return write_numbers(
        plan, parameters, tasks, data, store, _early_end(document), _benchmark(plan)
    )


def planned(store: RunStore) -> tuple[dict[str, Any], RunPlan]:
    """run.json, and the plan in it."""
    document = store.read_run() or {}
    try:
        plan = RunPlan.model_validate(document["plan"])
        document["tasks"] = [str(task) for task in document["tasks"]]
    except (KeyError, TypeError, ValidationError) as error:
        found = " ".join(str(error).split())[:200]
        if isinstance(error, ValidationError):
            found = first_problem(error, "the plan")
        raise RequestError("RUN_DIR", f"{store.folder.run_json} holds no plan: {found}") from None
    return document, plan


def refuse_if_held(store: RunStore) -> None:
    if who := holder(store.folder.lease):
        raise RequestError("RUN_DIR", f"the run is being worked on by {who}", "wait for its end")


def _early_end(document: dict[str, Any]) -> str:
    """Why the run is not complete; "" if it finished."""
    state = str(document.get("state", ""))
    if state in ("", "finished"):
        return ""
    if state == "running":  # and nobody works in it
        return "crashed"
    return f"{state}. {document.get('problem') or ''}".rstrip(". ")


def _benchmark(plan: RunPlan) -> Benchmark | None:
    """For its exports; a benchmark that cannot be had here exports nothing."""
    try:
        component = registry.load("benchmarks", plan.benchmark.id)
        parameters = validate(component.parameters, plan.benchmark.params, "benchmark-params")
        made = registry.create("benchmarks", plan.benchmark.id, component, parameters)
    except (RequestError, AgentCompassError) as error:
        log.warning("what the benchmark exports is not written again: %s", error)
        return None
    return cast(Benchmark, made)
