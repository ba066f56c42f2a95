"""Read the benchmark's data and select the tasks of this run."""

from agentcompass.components.contracts.run import RunPlan
from agentcompass.components.contracts.task import Dataset, Sample
from agentcompass.components.contracts.user_path import user_path
from agentcompass.components.execution.parts import Parts
from agentcompass.components.execution.rescoring import load_earlier_samples
from agentcompass.components.execution.selection import select


def load_samples(plan: RunPlan, parts: Parts) -> tuple[Dataset, tuple[Sample, ...]]:
    """The whole data set and the samples asked for. Blocking: may read disk and network once."""
    if plan.request.rescore is not None:
        return load_earlier_samples(plan, parts)
    data_dir = user_path(plan.request.runtime.data_dir, "data-dir")
    dataset = parts.benchmark.load(data_dir)
    return dataset, select(dataset, parts.benchmark_parameters)
