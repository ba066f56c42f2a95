"""Files in which a benchmark hands a run's results on: predictions for an official harness."""

import logging
from collections.abc import Iterable
from dataclasses import dataclass

from agentcompass.components.contracts.attempt import Artifact, AttemptKey, Detail
from agentcompass.components.contracts.protocols import Benchmark, Exporting
from agentcompass.components.results.names import safe_name
from agentcompass.components.results.store import RunStore
from agentcompass.components.results.writing import replacing

log = logging.getLogger(__name__)


def write_exports(benchmark: Benchmark, model: str, store: RunStore) -> None:
    """Each file whole or not at all, secrets masked. One that cannot be made is told in the log."""
    if not isinstance(benchmark, Exporting):
        return
    try:
        for name, parts in benchmark.exports(Finished(model, store)).items():
            _write(store, name, parts)
    except Exception as error:  # whatever a component may raise: the run's numbers stand
        log.warning("the results were not exported: %s", error, exc_info=True)


@dataclass(frozen=True)
class Finished:
    """Satisfies contracts.protocols.FinishedRun."""

    model: str
    store: RunStore

    def details(self) -> Iterable[Detail]:
        return self.store.details()

    def read(self, key: AttemptKey, artifact: Artifact) -> bytes:
        return self.store.artifacts(key).read(artifact)


def _write(store: RunStore, name: str, parts: Iterable[bytes]) -> None:
    if safe_name(name) != name:
        raise ValueError(f"{name!r} is no name for a file")
    with replacing(store.folder.root / name) as temporary, temporary.open("xb") as file:
        for part in parts:
            file.write(store.masker.bytes(part))
