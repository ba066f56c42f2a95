"""`agentcompass analysis`: run the analyzers again over a finished run."""

import json
import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from agentcompass.cli.run_command import RunCommand
from agentcompass.cli.run_options import option, with_options
from agentcompass.cli.streams import complain, put
from agentcompass.cli.values import TextValue

if TYPE_CHECKING:
    from agentcompass.components.execution.analysis import Analysis

SHOWN = 5
"""Pieces of advice on the console; the page holds all."""
SOMETHING_FAILED = 1
_WHERE = "Output"


@click.command("analysis", cls=RunCommand)
@click.argument("run_dir", type=TextValue(empty=False))
@with_options("--config", "--analysis-params")
@option(
    "--output",
    _WHERE,
    metavar="DIR",
    type=TextValue(empty=False),
    shown_default="RUN_DIR/analysis",
    help="Write the analysis into this folder.",
)
@option(
    "--override", _WHERE, is_flag=True, help="Replace an analysis that stands there; nothing else."
)
@with_options("--json")
def analysis(
    run_dir: str,
    analysis_params: dict[str, Any] | None,
    output: str | None,
    override: bool,
    config: tuple[str, ...],
    json: bool,
) -> int:
    """Run the analyzers over the attempts in RUN_DIR, wherever it was copied to.

    Reads the run's records only, and calls nobody but the model of a model check that is asked
    for (docs/analysis.md). Exit code 0: done; 1: an analyzer failed or a question found no answer,
    and is named. The last line is the page to read.
    """
    from agentcompass.components.configuration.merging import merged
    from agentcompass.components.contracts.user_path import user_path
    from agentcompass.components.execution.analysis import analyze, check_params
    from agentcompass.components.execution.configured import configured
    from agentcompass.components.execution.model_check_settings import model_check, provider
    from agentcompass.components.results.finished_run import open_run_folder

    settings = configured(config)
    below = settings.section("execution").get("analysis_params", {})
    given = merged(merged(settings.section("analyzers"), below), analysis_params or {})
    check_params(given)
    if (asked := model_check(given)) is not None:
        provider(asked.model)  # its key is asked for before anything is done
    store = open_run_folder(run_dir)
    folder = user_path(output, "output").absolute() if output else store.folder.analysis
    _make_room(folder, override=override)
    logging.getLogger("agentcompass").addHandler(logging.NullHandler())  # `_tell` says it all
    done = analyze(store, given, folder)
    return _tell(done, as_json=json)


def _make_room(folder: Path, *, override: bool) -> None:
    """Refuse to mix with what stands there; with `override` an earlier analysis goes first."""
    from agentcompass.components.contracts.errors import RequestError
    from agentcompass.components.results.finished_run import remove_analysis

    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        raise RequestError("output", f"{folder} is not a folder", "give another path")
    if not folder.is_dir() or not any(folder.iterdir()):
        return
    if not override:
        raise RequestError(
            "override", f"{folder} is not empty", "pass --override to replace the analysis there, "
            "or --output DIR",
        )  # fmt: skip
    remove_analysis(folder)


def _tell(done: "Analysis", *, as_json: bool) -> int:
    from agentcompass.components.execution.advice import to_do
    from agentcompass.components.execution.model_check_outcome import check_line

    code = SOMETHING_FAILED if done.failed or (done.check and done.check.problems) else 0
    listed = to_do(done)
    for name, why in done.failed.items():
        complain(f"agentcompass: analyzer {name} failed {why}")
    for problem in done.unreadable:
        complain(f"agentcompass: left out: {problem}")
    for problem in done.check.problems if done.check else ():
        complain(f"agentcompass: model check: {problem}")
    if as_json:
        put(json.dumps(_document(done, code), ensure_ascii=False, allow_nan=False))
        return code
    findings = sum(len(report.findings) for report in done.reports.values())
    put(f"{len(done.attempts.values)} attempts, {findings} findings")
    for item in listed[:SHOWN]:
        put(f"- {item.action} ({item.attempts})")
    if len(listed) > SHOWN:
        put(f"- … and {len(listed) - SHOWN} more")
    if done.check is not None:
        put(f"model check by {done.check.model}: {check_line(done.check)}")
    put(str(done.folder / "analysis.md"))
    return code


def _document(done: "Analysis", code: int) -> dict[str, Any]:
    from agentcompass.components.execution.advice import to_do
    from agentcompass.components.execution.model_check_outcome import numbers

    return {
        "folder": str(done.folder),
        "attempts": len(done.attempts.values),
        "to_do": [item._asdict() for item in to_do(done)],
        "analyzers": {
            name: {"findings": len(report.findings), "serious": _serious(report.findings)}
            for name, report in done.reports.items()
        },
        "failed": done.failed,
        "unreadable": done.unreadable,
        "model_check": numbers(done.check) if done.check else None,
        "exit_code": code,
    }


def _serious(findings: tuple[Any, ...]) -> int:
    return sum(finding.severity == "serious" for finding in findings)
