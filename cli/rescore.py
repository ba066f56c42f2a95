"""`agentcompass rescore`: judge the kept work of a run again, without the agent."""

import json as json_text
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from agentcompass.cli.run_command import RunCommand
from agentcompass.cli.run_options import option, with_options
from agentcompass.cli.streams import complain, put
from agentcompass.cli.values import TextValue

if TYPE_CHECKING:
    from agentcompass.components.contracts.progress import Outcome
    from agentcompass.components.contracts.run import RunRequest
    from agentcompass.components.execution.judged_again import Change, Rescored
    from agentcompass.components.results.metrics_record import Metrics
    from agentcompass.components.results.store import RunStore

JUDGING = (
    "--benchmark-params", "--env-params", "--recipe-dir", "--execution-params",
    "--task-concurrency", "--max-retries", "--retry-pattern-list", "--keep-environment",
)  # fmt: skip
RUNNING = (
    "--data-dir", "--timeout-seconds", "--env-open-qps", "--provider-limit", "--progress",
    "--log-level", "--file-log-level", "--auto-install-dependencies",
    "--enable-analysis/--no-enable-analysis", "--analysis-params", "--dry-run", "--json",
)  # fmt: skip
"""Options of `run` that mean the same here; JSON lies over what the run had."""
AS_THE_RUN = dict.fromkeys(
    (
        "--benchmark-params", "--env-params", "--execution-params", "--task-concurrency",
        "--max-retries", "--retry-pattern-list", "--keep-environment", "--data-dir",
        "--timeout-seconds", "--enable-analysis/--no-enable-analysis", "--analysis-params",
    ),
    "as the run had",
)  # fmt: skip

EXECUTION = (
    "task_concurrency", "max_retries", "retry_pattern_list", "enable_analysis", "analysis_params",
)  # fmt: skip
HERE = ("env_open_qps", "provider_limits", "progress", "log_level", "file_log_level")
"""Settings of `runtime` that are this machine's and this user's, not the run's."""
RUNTIME = ("data_dir", "timeout_seconds", *HERE)
SHOWN = 20
"""Changed verdicts on the console; rescored.json holds all."""
_WHERE = "Output and reuse"


@click.command("rescore", cls=RunCommand)
@click.argument("run_dir", type=TextValue(empty=False))
@with_options(*JUDGING, shown_defaults=AS_THE_RUN)
@option(
    "--output",
    _WHERE,
    metavar="DIR",
    type=TextValue(empty=False),
    shown_default="beside RUN_DIR, named by the time",
    help="Folder of the new run; it must not exist.",
)
@option(
    "--override",
    _WHERE,
    is_flag=True,
    help="Let the new verdicts take the place of those in RUN_DIR, once each attempt has one.",
)
@with_options(*RUNNING, shown_defaults=AS_THE_RUN)
def rescore(
    run_dir: str, output: str | None, override: bool, dry_run: bool, json: bool, **typed: Any
) -> int:
    """Judge what agents left in RUN_DIR again: with a corrected grader, or another judge.

    No agent runs and no model key is needed. The verdicts go into a new run, which names the one
    it comes from; attempts that cannot be judged again keep their outcome. Exit codes as of `run`.
    The last line on stdout is the new run's folder.
    """
    from agentcompass.cli.run_checks import check
    from agentcompass.components.configuration.secrets import holding
    from agentcompass.components.contracts.errors import RequestError
    from agentcompass.components.execution.typed_secrets import hide_variables
    from agentcompass.components.results.finished_run import open_run_folder

    if output and override:
        raise RequestError("override", "does not go with --output", "give one of them")
    source = open_run_folder(run_dir)
    typed["env_params"], secrets = hide_variables(typed["env_params"] or {})
    request = _request(source, output or "", typed)
    with holding(secrets):
        checked = check(request, install=not dry_run)
        if dry_run:
            from agentcompass.cli.dry_run import dry_run as only_show

            return only_show(checked, as_json=json)
    from agentcompass.cli.run_execution import carry_out

    return _tell(source, carry_out(request, secrets), override=override, as_json=json)


def _request(source: "RunStore", output: str, typed: dict[str, Any]) -> "RunRequest":
    from agentcompass.components.configuration.merging import merged
    from agentcompass.components.contracts.user_path import user_path
    from agentcompass.components.execution.configured import configured
    from agentcompass.components.execution.rescoring import rescore_request

    trusted = [str(user_path(one, "recipe-dir").absolute()) for one in typed["recipe_dirs"]]
    files = configured().section("runtime")
    trusted = [*files.get("recipe_dirs", ()), *trusted]
    execution = {name: typed[name] for name in EXECUTION if typed[name] is not None}
    if typed["keep_environment"]:
        execution["keep_environment"] = True
    runtime = merged(
        {name: files[name] for name in (*HERE, "auto_install_dependencies") if name in files},
        {name: typed[name] for name in RUNTIME if typed[name] is not None},
    )
    runtime["recipe_dirs"] = list(dict.fromkeys(trusted))
    if typed["auto_install_dependencies"]:
        runtime["auto_install_dependencies"] = True
    return rescore_request(
        source,
        output,
        benchmark_params=typed["benchmark_params"],
        env_params=typed["env_params"],
        execution=merged(typed["execution_params"] or {}, execution),
        runtime=runtime,
    )


def _tell(source: "RunStore", outcome: "Outcome", *, override: bool, as_json: bool) -> int:
    from agentcompass.cli.rendering.results import result_lines
    from agentcompass.components.execution.judged_again import read_changes
    from agentcompass.components.results.metrics_record import Metrics
    from agentcompass.components.results.reading import read_record

    new = Path(outcome.run_dir)
    metrics: Metrics | None = read_record(new / "metrics.json", "metrics", Metrics)
    changes = read_changes(new)
    if override:
        new = _put_in_place(source, outcome, changes)
    if as_json:
        put(_document(outcome, new, metrics, changes))
    else:
        for line in result_lines(metrics) if metrics else ():
            put(line)
        for line in _lines(changes) if changes else ():
            put(line)
        put(str(new))
    if outcome.problem or outcome.state == "interrupted":
        complain(f"agentcompass: {outcome.state}: {outcome.problem or 'what was judged is kept'}")
    return outcome.exit_code


def _put_in_place(source: "RunStore", outcome: "Outcome", changes: "Rescored | None") -> Path:
    from agentcompass.components.execution.judged_again import put_in_place

    new = Path(outcome.run_dir)
    if outcome.state != "finished" or changes is None or changes.unjudged:
        lacking = changes.unjudged if changes else 0
        why = f"{lacking} attempts have no verdict now" if lacking else f"it {outcome.state}"
        complain(f"agentcompass: nothing was replaced, {why}; the new verdicts are in {new}")
        return new
    put_in_place(source.folder.root, new)
    return source.folder.root


def _lines(changes: "Rescored") -> list[str]:
    lines = [f"{changes.judged} judged again, {len(changes.changed)} verdicts changed"]
    if changes.unjudged:
        lines[0] += f", {changes.unjudged} have no valid score now"
    if changes.kept:
        lines[0] += f", {changes.kept} kept as they were (see run.json)"
    lines += [f"  {_change(change)}" for change in changes.changed[:SHOWN]]
    if len(changes.changed) > SHOWN:
        lines.append(f"  … and {len(changes.changed) - SHOWN} more in rescored.json")
    return lines


def _change(change: "Change") -> str:
    before, after = (
        "no score" if value is None else f"{value:g}" for value in (change.before, change.after)
    )
    return f"{change.task_id} #{change.attempt}: {before} → {after}"


def _document(
    outcome: "Outcome", folder: Path, metrics: "Metrics | None", changes: "Rescored | None"
) -> str:
    document = {
        "outcome": outcome.state,
        "exit_code": outcome.exit_code,
        "run_dir": str(folder),
        "problem": outcome.problem,
        "rescored": changes.model_dump(mode="json") if changes else None,
        "metrics": metrics.model_dump(mode="json") if metrics else None,
    }
    return json_text.dumps(document, ensure_ascii=False, allow_nan=False)
