"""From the recorded attempts to the numbers, in every form they are read in."""

from collections.abc import Mapping, Sequence
from typing import Any

from agentcompass.components.contracts.parameters import BenchmarkParameters
from agentcompass.components.contracts.protocols import Benchmark
from agentcompass.components.contracts.run import RunPlan
from agentcompass.components.contracts.task import Dataset, Sample
from agentcompass.components.execution.exports import write_exports
from agentcompass.components.execution.repeating import command, way_on
from agentcompass.components.results.metrics import compute_metrics
from agentcompass.components.results.metrics_record import Metrics
from agentcompass.components.results.store import RunStore
from agentcompass.components.results.summary import summary_markdown
from agentcompass.components.results.tables import write_attempts


def conclude(
    plan: RunPlan,
    parameters: BenchmarkParameters,
    dataset: Dataset,
    samples: Sequence[Sample],
    store: RunStore,
    early_end: str = "",
    benchmark: Benchmark | None = None,
) -> Metrics:
    """Write metrics.json, attempts.parquet and summary.md from the details on disk, and what the
    benchmark exports.

    `early_end` says why the run is not complete.
    """
    return write_numbers(
        plan,
        parameters,
        {sample.task.id: sample.task.category for sample in samples},
        dataset_facts(dataset),
        store,
        early_end,
        benchmark,
    )


def dataset_facts(dataset: Dataset) -> dict[str, Any]:
    """What run.json tells of the data."""
    return {
        "source": dataset.source,
        "revision": dataset.revision,
        "content_hash": dataset.content_hash,
        "tasks": len(dataset.samples),
    }


def write_numbers(
    plan: RunPlan,
    parameters: BenchmarkParameters,
    planned: Mapping[str, str | None],
    data: Mapping[str, Any],
    store: RunStore,
    early_end: str = "",
    benchmark: Benchmark | None = None,
) -> Metrics:
    """The same from what a run's folder holds. `planned`: task id → category; `data`: see
    dataset_facts."""
    attempts = plan.request.execution.attempts
    metrics = compute_metrics(
        store.details(),
        planned,
        k=attempts.k,
        strategy=attempts.strategy,
        primary=plan.primary,
        unscored=parameters.unscored,
        aggregation=parameters.aggregation,
        score_range=benchmark.score_range if benchmark is not None else None,
    )
    store.write_metrics(metrics)
    write_attempts(store.folder.attempts_parquet, store.details())
    facts = _facts(plan, data, len(planned))
    if early_end:
        facts = {"NOT COMPLETE": early_end, **facts}
    if metrics.coverage.lacking:
        facts["way on"] = way_on(plan.request, store.folder.run_id)
    store.write_summary(summary_markdown(metrics, facts))
    if benchmark is not None:
        write_exports(benchmark, plan.request.model.id, store)
    return metrics


def _facts(plan: RunPlan, data: Mapping[str, Any], selected: int) -> dict[str, object]:
    request = plan.request
    rescored = (
        {"verdicts": f"given again from {request.rescore.run_dir}"} if request.rescore else {}
    )
    return {
        **rescored,
        "benchmark": plan.benchmark.id,
        "harness": plan.harness.id,
        "model": request.model.id,
        "environment": plan.environment.id,
        "protocol": plan.model_protocol,
        "data": " ".join(filter(None, (data["source"], data["revision"]))),
        "data hash": data["content_hash"],
        "tasks": f"{selected} of {data['tasks']}",
        "attempts": f"k={request.execution.attempts.k}, {request.execution.attempts.strategy}",
        "command": command(request),
    }
