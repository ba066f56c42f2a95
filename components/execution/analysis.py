"""Run the analyzers over a finished run. A broken one is named and harms nothing.

One pass: each detail and each trajectory is read once, shown to every analyzer, and let go.
"""

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from agentcompass.components.configuration.spelling import nearest
from agentcompass.components.configuration.validation import validate
from agentcompass.components.contracts.analysis import FinishedAttempt, Report
from agentcompass.components.contracts.attempt import AttemptRecord, Detail
from agentcompass.components.contracts.errors import RequestError
from agentcompass.components.contracts.protocols import Analyzer
from agentcompass.components.contracts.run import ExecutionSettings
from agentcompass.components.contracts.trajectory import Trajectory
from agentcompass.components.execution.advice import Attempts, analysis_markdown
from agentcompass.components.execution.missing import missing
from agentcompass.components.registry import registry
from agentcompass.components.results.names import safe_name
from agentcompass.components.results.reading import DamagedRecord
from agentcompass.components.results.store import RunStore
from agentcompass.components.results.writing import clean_text, to_json, write_atomic

log = logging.getLogger(__name__)

SELECTION = "analyzers"
"""The one key of the analysis parameters that is no analyzer's id."""


@dataclass
class Analysis:
    """What came of it."""

    folder: Path
    attempts: Attempts
    reports: dict[str, Report] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    """Analyzer → what went wrong in it, one line."""
    unreadable: list[str] = field(default_factory=list)
    """Trajectories that cannot be read, one line each."""


def analyze(
    store: RunStore, params: Mapping[str, Any] | None = None, folder: Path | None = None
) -> Analysis:
    """Write `<analyzer>.json` for each analyzer, and `analysis.md`, into the run's `analysis/`.

    `params`: analyzer id → its parameters, and `analyzers`: only these ids. RequestError names
    what is wrong in it; DamagedRecord a detail that cannot be read.
    """
    analysis = Analysis(folder or store.folder.analysis, Attempts())
    analyzers = _created(params or {}, analysis)
    for attempt in _finished(store, analysis):
        analysis.attempts.add(attempt)
        for name in list(analyzers):
            with _guarded(name, analyzers, analysis, f"at {attempt.record.key}"):
                analyzers[name].look_at(attempt)
    for name in list(analyzers):
        with _guarded(name, analyzers, analysis, "in its report"):
            analysis.reports[name] = analyzers[name].report()
            document = _document(name, analysis.reports[name])
            content = to_json(store.masker.value(document))
            write_atomic(analysis.folder / f"{safe_name(name)}.json", content)
    text, _ = clean_text(store.masker.text(analysis_markdown(analysis)))
    write_atomic(analysis.folder / "analysis.md", text.encode())
    return analysis


def analyze_run(store: RunStore, settings: ExecutionSettings) -> None:
    """After an evaluation: whatever goes wrong, its result stands."""
    if not settings.enable_analysis:
        return
    try:
        analyze(store, settings.analysis_params)
    except Exception as error:  # an unreadable record, a full disk: nothing that undoes the run
        log.warning("the analysis failed: %s", error, exc_info=True)


def check_params(params: Mapping[str, Any], place: str = "analysis-params") -> None:
    """RequestError if an id, a key or a value is wrong; creates no analyzer."""
    known = registry.listings("analyzers")
    selected = params.get(SELECTION)
    if selected is not None:
        if not isinstance(selected, list | tuple) or not all(isinstance(s, str) for s in selected):
            raise RequestError(f"{place}.{SELECTION}", "is not a list of ids")
        if not selected:
            raise RequestError(
                f"{place}.{SELECTION}", "selects nothing", "leave it out, or --no-enable-analysis"
            )
    for name in [*(selected or ()), *(key for key in params if key != SELECTION)]:
        if name not in known:
            raise RequestError(f"{place}.{name}", "no such analyzer", nearest(name, known))
    for name, values in params.items():
        if name != SELECTION:
            if not isinstance(values, Mapping):
                raise RequestError(f"{place}.{name}", "is not an object with parameters")
            model = registry.load("analyzers", name).parameters
            validate(model, values, f"{place}.{name}")


def _created(params: Mapping[str, Any], analysis: Analysis) -> dict[str, Analyzer]:
    check_params(params)
    created: dict[str, Analyzer] = {}
    for name in params.get(SELECTION) or registry.listings("analyzers"):
        with _guarded(name, created, analysis, "when it was made"):
            component = registry.load("analyzers", name)
            if lacks := missing("analyzers", name):
                raise RequestError("analyzer", str(lacks))
            values = validate(component.parameters, params.get(name, {}), f"analysis-params.{name}")
            created[name] = cast(Analyzer, registry.create("analyzers", name, component, values))
    return created


@dataclass
class _guarded:  # noqa: N801  a context manager, used like a function
    """Within it a failure of this analyzer ends this analyzer, and nothing else."""

    name: str
    analyzers: dict[str, Analyzer]
    analysis: Analysis
    where: str

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        if not isinstance(error, Exception):  # an analyzer may fail in any way; Ctrl-C is none
            return False
        reason = " ".join(f"{type(error).__name__}: {error}".split())[:500]
        log.warning("analyzer %s failed %s: %s", self.name, self.where, reason)
        log.debug("analyzer %s failed", self.name, exc_info=error)
        self.analysis.failed[self.name] = f"{self.where}: {reason}"
        self.analysis.reports.pop(self.name, None)
        self.analyzers.pop(self.name, None)
        return True


def _finished(store: RunStore, analysis: Analysis) -> Iterator[FinishedAttempt]:
    for detail in store.details():
        for record in detail.attempts:
            if record.status != "skipped":
                yield FinishedAttempt(detail, record, _trajectory(store, record, detail, analysis))


def _trajectory(
    store: RunStore, record: AttemptRecord, detail: Detail, analysis: Analysis
) -> Trajectory | None:
    try:
        return store.read_trajectory(record.key)
    except DamagedRecord as error:
        log.warning("the trajectory of %s is left out of the analysis: %s", record.key, error)
        analysis.unreadable.append(str(error))
        return None


def _document(name: str, report: Report) -> dict[str, Any]:
    return {
        "schema_version": 1,
        "analyzer": name,
        "version": registry.load("analyzers", name).version,
        "findings": report.findings,
        "numbers": report.numbers,
    }
