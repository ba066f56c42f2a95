"""Run the analyzers over a finished run. A broken one is named and harms nothing.

One pass: each detail and each trajectory is read once, shown to every analyzer, and let go. What
the rules found is on disk before a model is asked about it, if that is asked for at all.
"""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from agentcompass.components.configuration.spelling import nearest
from agentcompass.components.configuration.validation import validate
from agentcompass.components.contracts.analysis import FinishedAttempt, ModelCheck, Report
from agentcompass.components.contracts.errors import RequestError
from agentcompass.components.contracts.run import ExecutionSettings, RunRequest
from agentcompass.components.execution.advice import Attempts, analysis_markdown
from agentcompass.components.execution.analyzer_post import AnalyzerPost
from agentcompass.components.execution.desk import one_line
from agentcompass.components.execution.finished_attempts import finished_attempts
from agentcompass.components.execution.missing import missing
from agentcompass.components.execution.model_check import check_findings
from agentcompass.components.execution.model_check_outcome import CheckOutcome
from agentcompass.components.execution.model_check_settings import MODEL_CHECK, model_check
from agentcompass.components.execution.repeating import way_on
from agentcompass.components.registry import registry
from agentcompass.components.results.masking import Masker
from agentcompass.components.results.names import safe_name
from agentcompass.components.results.reading import DamagedRecord
from agentcompass.components.results.store import RunStore
from agentcompass.components.results.writing import clean_text, to_json, write_atomic

log = logging.getLogger(__name__)

SELECTION = "analyzers"
"""With MODEL_CHECK the only keys of the analysis parameters that are no analyzer's id."""


@dataclass
class Analysis:
    """What came of it."""

    folder: Path
    attempts: Attempts
    masker: Masker
    reports: dict[str, Report] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    """Analyzer → what went wrong in it, one line."""
    unreadable: list[str] = field(default_factory=list)
    """Trajectories that cannot be read, one line each."""
    check: CheckOutcome | None = None
    """None: no model was to be asked."""


def analyze(
    store: RunStore,
    params: Mapping[str, Any] | None = None,
    folder: Path | None = None,
    stopped: Callable[[], bool] = lambda: False,
) -> Analysis:
    """Write `<analyzer>.json` for each analyzer, and `analysis.md`, into the run's `analysis/`.

    `params`: analyzer id → its parameters; `analyzers`: only these ids; `model_check`: the model
    that is asked about suspicious findings, until `stopped`. RequestError names what is wrong in
    it; DamagedRecord a detail that cannot be read.
    """
    analysis = Analysis(folder or store.folder.analysis, Attempts(), store.masker)
    check_params(params or {})
    asked = model_check(params or {})
    posts = _created(params or {}, analysis)
    for attempt in finished_attempts(store, analysis.unreadable):
        analysis.attempts.add(attempt)
        for post in list(posts.values()):
            _look(post, attempt, posts, analysis)
    for post in posts.values():
        _report(post, store, analysis)
    _write_page(store, analysis)
    if asked is not None:
        _check(asked, store, analysis, stopped)
    return analysis


def analyze_run(
    store: RunStore, settings: ExecutionSettings, stopped: Callable[[], bool] = lambda: False
) -> None:
    """After an evaluation: whatever goes wrong, its result stands."""
    if not settings.enable_analysis:
        return
    try:
        done = analyze(store, settings.analysis_params, stopped=stopped)
    except Exception as error:  # an unreadable record, a full disk: nothing that undoes the run
        log.warning("the analysis failed: %s", error, exc_info=True)
        return
    if done.check is not None and done.check.problems:
        log.warning("the model check: %s", "; ".join(done.check.problems))


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
    for name in [
        *(selected or ()),
        *(key for key in params if key not in (SELECTION, MODEL_CHECK)),
    ]:
        if name not in known:
            others = () if name in (selected or ()) else (SELECTION, MODEL_CHECK)
            hint = nearest(name, [*known, *others])
            raise RequestError(f"{place}.{name}", "no such analyzer", hint)
    model_check(params, place)
    for name, values in params.items():
        if name not in (SELECTION, MODEL_CHECK):
            if not isinstance(values, Mapping):
                raise RequestError(f"{place}.{name}", "is not an object with parameters")
            model = registry.load("analyzers", name).parameters
            validate(model, values, f"{place}.{name}")


def _created(params: Mapping[str, Any], analysis: Analysis) -> dict[str, AnalyzerPost]:
    created: dict[str, AnalyzerPost] = {}
    for name in params.get(SELECTION) or registry.listings("analyzers"):
        with _guarded(name, "when it was made", analysis):
            component = registry.load("analyzers", name)
            if lacks := missing("analyzers", name):
                raise RequestError("analyzer", str(lacks))
            values = validate(component.parameters, params.get(name, {}), f"analysis-params.{name}")
            created[name] = AnalyzerPost(name, component, values)
    return created


def _look(
    post: AnalyzerPost,
    attempt: FinishedAttempt,
    posts: dict[str, AnalyzerPost],
    analysis: Analysis,
) -> None:
    if attempt.earlier_try is None:
        with _guarded(post.name, f"at {attempt.record.key}", analysis) as work:
            post.look_at(attempt)
        if work.failed:
            del posts[post.name]
        return
    where = f"at {attempt.record.key}, try {attempt.earlier_try}"
    with _guarded(post.name, where, analysis) as work:
        post.look_at_earlier_try(attempt)
    if work.failed:  # what it found in the attempts themselves stands
        post.leave_earlier_tries()


def _report(post: AnalyzerPost, store: RunStore, analysis: Analysis) -> None:
    with _guarded(post.name, "in its report", analysis) as work:
        analysis.reports[post.name] = post.report()
        with _guarded(post.name, "in its report on earlier tries", analysis):
            analysis.reports[post.name] = post.with_earlier_tries(analysis.reports[post.name])
        _write_report(post.name, store, analysis)
    if work.failed:
        analysis.reports.pop(post.name, None)


def _check(
    asked: ModelCheck, store: RunStore, analysis: Analysis, stopped: Callable[[], bool]
) -> None:
    before = analysis.reports
    analysis.check = check_findings(asked, before, store, analysis.folder, stopped)
    analysis.reports = analysis.check.reports
    for name, report in analysis.reports.items():
        if report is not before[name]:
            _write_report(name, store, analysis)
    _write_page(store, analysis)


@dataclass
class _guarded:  # noqa: N801  a context manager, used like a function
    """Within it a failure of this analyzer is named, and ends nothing else."""

    name: str
    where: str
    analysis: Analysis
    failed: bool = False

    def __enter__(self) -> "_guarded":
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        if not isinstance(error, Exception):  # an analyzer may fail in any way; Ctrl-C is none
            return False
        self.failed = True
        reason = one_line(error, self.analysis.masker)
        log.warning("analyzer %s failed %s: %s", self.name, self.where, reason)
        log.debug("analyzer %s failed", self.name, exc_info=error)
        self.analysis.failed[self.name] = f"{self.where}: {reason}"
        return True


def _write_report(name: str, store: RunStore, analysis: Analysis) -> None:
    report = analysis.reports[name]
    document = {
        "schema_version": 1,
        "analyzer": name,
        "version": registry.load("analyzers", name).version,
        "findings": report.findings,
        "numbers": report.numbers,
    }
    content = to_json(store.masker.value(document))
    write_atomic(analysis.folder / f"{safe_name(name)}.json", content)


def _write_page(store: RunStore, analysis: Analysis) -> None:
    page = analysis_markdown(analysis, _way_on(store))
    text, _ = clean_text(store.masker.text(page))
    write_atomic(analysis.folder / "analysis.md", text.encode())


def _way_on(store: RunStore) -> str:
    """The command that goes on with the run; "" if it lacks nothing, or its folder does not say."""
    try:
        document = store.read_run() or {}
        metrics = store.read_metrics()
        request = RunRequest.model_validate(document["plan"]["request"])
    except (KeyError, TypeError, ValidationError, DamagedRecord):
        return ""
    if metrics is not None and not metrics.coverage.lacking:
        return ""
    return way_on(request, str(document.get("run_id") or store.folder.run_id))
