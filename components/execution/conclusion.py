"""From the recorded attempts to the numbers, in every form they are read in."""

from collections.abc import Sequence

from agentcompass.components.contracts.parameters import BenchmarkParameters
from agentcompass.components.contracts.run import RunPlan
from agentcompass.components.contracts.task import Dataset, Sample
from agentcompass.components.results.metrics import Metrics, compute
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
