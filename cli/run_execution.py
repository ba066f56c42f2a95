"""Carry out a checked request, show how it goes, and print what came out."""

import contextlib
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agentcompass.cli.rendering.progress import RunView, showing
from agentcompass.cli.rendering.results import result_lines
from agentcompass.cli.streams import complain, put
from agentcompass.components.contracts.errors import PreflightRefused
from agentcompass.components.contracts.progress import Outcome
from agentcompass.components.contracts.run import RunRequest
from agentcompass.components.execution.repeating import way_on
from agentcompass.components.results.metrics_record import Metrics
from agentcompass.components.results.reading import read_record

QUIET_LEVELS = ("WARNING", "ERROR", "CRITICAL")


def execute(request: RunRequest, secrets: Mapping[str, str], *, as_json: bool) -> int:
    """The exit code of the run's outcome. stdout holds the result and nothing else."""
    outcome = carry_out(request, secrets)
    # None if the run ended before there were any numbers
    metrics = read_record(Path(outcome.run_dir) / "metrics.json", "metrics", Metrics)
    if as_json:
        put(json.dumps(_document(outcome, metrics), ensure_ascii=False, allow_nan=False))
    else:
        if metrics is not None:
            for line in result_lines(metrics):
                put(line)
        put(outcome.run_dir)
    if outcome.problem:
        complain(f"agentcompass: {outcome.state}: {outcome.problem}")
    elif outcome.state == "interrupted":
        complain("agentcompass: interrupted; what was finished is kept")
    if outcome.scored + outcome.skipped < outcome.planned:
        _tell_the_way_on(request, Path(outcome.run_dir))
    return outcome.exit_code


def _tell_the_way_on(request: RunRequest, folder: Path) -> None:
    """The last lines on stderr, for attempts without a score: where it says why, and what then."""
    pages = (folder / "analysis" / "analysis.md", folder / "summary.md")
    if page := next((page for page in pages if page.exists()), None):
        complain(f"what to do: {page}")
    complain(f"to go on (scored attempts are kept): {way_on(request, folder.name)}")


def carry_out(request: RunRequest, secrets: Mapping[str, str]) -> Outcome:
    """Run it and show how it goes; PreflightRefused if there is no Prefect server to be had."""
    # Prefect: only once nothing is in its way.
    from agentcompass.flows.local import run_locally
    from agentcompass.flows.server import ServerProblem

    runtime = request.runtime
    with (
        showing(runtime.progress, runtime.log_level in QUIET_LEVELS) as (show, note),
        # Libraries that print must neither break the last line nor the JSON document.
        contextlib.redirect_stdout(sys.stderr),
    ):
        try:
            return run_locally(request, secrets, lambda progress: show(RunView(progress)), note)
        except ServerProblem as problem:
            raise PreflightRefused((str(problem),)) from problem


def _document(outcome: Outcome, metrics: Metrics | None) -> dict[str, Any]:
    return {
        "outcome": outcome.state,
        "exit_code": outcome.exit_code,
        "run_dir": outcome.run_dir,
        "planned": outcome.planned,
        "scored": outcome.scored,
        "skipped": outcome.skipped,
        "problem": outcome.problem,
        "metrics": metrics.model_dump(mode="json") if metrics else None,
    }
