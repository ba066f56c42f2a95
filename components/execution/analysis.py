"""Run the analyzers over a finished run. A broken one is named and harms nothing."""

import logging
from collections.abc import Iterator, Sequence
from typing import cast

from agentcompass.components.contracts.attempt import AttemptKey, Detail
from agentcompass.components.contracts.protocols import Analyzer, Report
from agentcompass.components.contracts.trajectory import Step
from agentcompass.components.registry import registry
from agentcompass.components.results.names import safe_name
from agentcompass.components.results.store import RunStore
from agentcompass.components.results.writing import clean_text, to_json, write_atomic

log = logging.getLogger(__name__)


def analyze(store: RunStore) -> None:
    """Write `analysis/<analyzer>.json` for each analyzer, and `analysis/analysis.md`."""
    folder, sections = store.folder.analysis, ["# Analysis\n"]
    for name in registry.listings("analyzers"):
        try:
            report = _run(name, store)
        except Exception as error:  # an analyzer may fail in any way; the run's result stands
            log.warning("analyzer %s failed: %r", name, error, exc_info=True)
            sections.append(f"## {name}\n\nThis analyzer failed: {error!r}\n")
            continue
        document = {"schema_version": 1, "analyzer": name, "findings": report.findings}
        write_atomic(folder / f"{safe_name(name)}.json", to_json(store.masker.value(document)))
        sections.append(f"## {name}\n\n{report.markdown}")
    text, _ = clean_text(store.masker.text("\n".join(sections)))
    write_atomic(folder / "analysis.md", text.encode())


def _run(name: str, store: RunStore) -> Report:
    component = registry.load("analyzers", name)
    analyzer = cast(Analyzer, component.create(component.parameters()))
    return analyzer.analyze(_Finished(store))


class _Finished:
    """Satisfies contracts.protocols.AnalysisInput: reads one record at a time."""

    def __init__(self, store: RunStore) -> None:
        self._store = store

    def details(self) -> Iterator[Detail]:
        return self._store.details()

    def steps(self, key: AttemptKey) -> Sequence[Step]:
        trajectory = self._store.read_trajectory(key)
        return trajectory.steps if trajectory else ()
