"""From the recorded attempts to the numbers, in every form they are read in."""

import json
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from agentcompass.components.configuration.secrets import HELD_KEY
from agentcompass.components.contracts.parameters import BenchmarkParameters
from agentcompass.components.contracts.protocols import Benchmark
from agentcompass.components.contracts.run import ExecutionSettings, RunPlan, RuntimeSettings
from agentcompass.components.contracts.task import Dataset, Sample
from agentcompass.components.execution.exports import write_exports
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
    )
    store.write_metrics(metrics)
    write_attempts(store.folder.attempts_parquet, store.details())
    facts = _facts(plan, data, len(planned))
    if early_end:
        facts = {"NOT COMPLETE": early_end, **facts}
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
        "command": _command(plan),
    }


def _command(plan: RunPlan) -> str:
    """The command line that asks for the same run; secrets are references."""
    request = plan.request
    if request.rescore:
        return shlex.join(["agentcompass", "rescore", request.rescore.run_dir])
    words = ["agentcompass", "run", request.benchmark.id, request.harness.id, request.model.id]
    words += ["--env", request.environment.id]
    params = {
        "--benchmark-params": request.benchmark.params,
        "--harness-params": request.harness.params,
        "--model-params": request.model.params,
        "--env-params": request.environment.params,
    }
    for flag, values in params.items():
        if values:
            words += [flag, json.dumps(dict(values), ensure_ascii=False)]
    if request.model.base_url:
        words += ["--model-base-url", request.model.base_url]
    if request.execution != ExecutionSettings():
        set_by_user = request.execution.model_dump(mode="json", exclude_defaults=True)
        words += ["--execution-params", json.dumps(set_by_user)]
    if request.runtime.timeout_seconds != RuntimeSettings().timeout_seconds:
        words += ["--timeout-seconds", f"{request.runtime.timeout_seconds:g}"]
    line = shlex.join(words)
    if key := request.model.api_key:
        name = "MODEL_API_KEY" if key.env in (HELD_KEY, "") else key.env
        line += f' --model-api-key "${name}"'  # expanded by the shell, never written out
    return line
