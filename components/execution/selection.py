"""Which tasks of a data set a run attempts, in which order. Pure."""

import hashlib
from collections import Counter

from agentcompass.components.configuration.spelling import nearest
from agentcompass.components.contracts.errors import RequestError
from agentcompass.components.contracts.parameters import BenchmarkParameters
from agentcompass.components.contracts.task import Dataset, Sample


def select(dataset: Dataset, parameters: BenchmarkParameters) -> tuple[Sample, ...]:
    """The samples asked for. Unknown ids, unknown categories and an empty choice are refused."""
    _check_ids(dataset)
    samples = dataset.samples
    if parameters.sample_ids is not None:
        samples = _by_id(dataset, parameters.sample_ids)
    if parameters.categories is not None:
        samples = _by_category(dataset, samples, parameters.categories)
    if parameters.seed is not None:
        samples = tuple(sorted(samples, key=lambda s: _rank(parameters.seed, s.task.id)))
    if parameters.limit is not None:
        samples = samples[: parameters.limit]
    if not samples:
        raise RequestError(
            "benchmark-params",
            f"no task is selected of the {len(dataset.samples)} there are ({dataset.source})",
            "check sample_ids and categories",
        )
    return samples


def _by_id(dataset: Dataset, ids: tuple[str, ...]) -> tuple[Sample, ...]:
    known = {sample.task.id: sample for sample in dataset.samples}
    field = "benchmark-params.sample_ids"
    if unknown := [name for name in ids if name not in known]:
        hints = "; ".join(f"{name!r}: {nearest(name, known)}" for name in unknown[:5])
        raise RequestError(field, f"{len(unknown)} unknown: {hints}")
    if repeated := [name for name, count in Counter(ids).items() if count > 1]:
        raise RequestError(field, f"given more than once: {', '.join(map(repr, repeated[:5]))}")
    return tuple(known[name] for name in ids)


def _by_category(
    dataset: Dataset, samples: tuple[Sample, ...], categories: tuple[str, ...]
) -> tuple[Sample, ...]:
    known = {sample.task.category for sample in dataset.samples} - {None}
    for name in categories:
        if name not in known:
            raise RequestError(
                "benchmark-params.categories",
                f"unknown category {name!r}",
                nearest(name, (str(c) for c in known)),
            )
    return tuple(sample for sample in samples if sample.task.category in categories)


def _rank(seed: int | None, task_id: str) -> str:
    # Ordering by a hash keeps a task's place independent of which other tasks exist, of the
    # process and of the Python version.
    return hashlib.sha256(f"{seed}\0{task_id}".encode()).hexdigest()


def _check_ids(dataset: Dataset) -> None:
    ids = [sample.task.id for sample in dataset.samples]
    if odd := [name for name in ids if not name.strip() or "\0" in name or not _encodes(name)]:
        raise RequestError(
            "benchmark", f"{dataset.source}: no record can hold the task id {odd[0]!r}"
        )
    counts = Counter(sample.task.id for sample in dataset.samples)
    if repeated := [name for name, count in counts.items() if count > 1]:
        raise RequestError(
            "benchmark", f"{dataset.source} has several tasks with the id {repeated[0]!r}"
        )


def _encodes(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True
