"""From the recorded attempts to the numbers, in every form they are read in."""

import json
import shlex
from collections.abc import Sequence

from agentcompass.components.contracts.parameters import BenchmarkParameters
from agentcompass.components.contracts.run import RunPlan
from agentcompass.components.contracts.task import Dataset, Sample
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
) -> Metrics:
    """Write metrics.json, attempts.parquet and summary.md from the details on disk."""
    attempts = plan.request.execution.attempts
    metrics = compute_metrics(
        store.details(),
        {sample.task.id: sample.task.category for sample in samples},
        k=attempts.k,
        strategy=attempts.strategy,
        primary=plan.primary,
        unscored=parameters.unscored,
        aggregation=parameters.aggregation,
    )
    store.write_metrics(metrics)
    write_attempts(store.folder.attempts_parquet, store.details())
    store.write_summary(summary_markdown(metrics, _facts(plan, dataset, len(samples))))
    return metrics


def _facts(plan: RunPlan, dataset: Dataset, selected: int) -> dict[str, object]:
    request = plan.request
    return {
        "benchmark": plan.benchmark.id,
        "harness": plan.harness.id,
        "model": request.model.id,
        "environment": plan.environment.id,
        "protocol": plan.model_protocol,
        "data": " ".join(filter(None, (dataset.source, dataset.revision))),
        "data hash": dataset.content_hash,
        "tasks": f"{selected} of {len(dataset.samples)}",
        "attempts": f"k={request.execution.attempts.k}, {request.execution.attempts.strategy}",
        "command": _command(plan),
    }


def _command(plan: RunPlan) -> str:
    """The command line that asks for the same run; secrets are references."""
    request = plan.request
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
    if request.model.api_key:
        words += ["--model-api-key", f"${{{request.model.api_key.env}}}"]
    attempts = request.execution.attempts
    if attempts.k > 1:
        words += ["--k", str(attempts.k), "--attempt-strategy", attempts.strategy]
    return shlex.join(words)
