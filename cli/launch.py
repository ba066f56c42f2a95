"""`agentcompass launch`: several requests from one file."""

import contextlib
import json
import sys
from typing import TYPE_CHECKING, Any

import click

from agentcompass.cli.rendering.columns import columns
from agentcompass.cli.rendering.launch import label, table_lines
from agentcompass.cli.rendering.plan import brief_lines, plan_document
from agentcompass.cli.run_command import RunCommand
from agentcompass.cli.run_options import with_options
from agentcompass.cli.streams import complain, put
from agentcompass.cli.values import TextValue

if TYPE_CHECKING:
    from agentcompass.components.execution.launch import PlannedLaunch
    from agentcompass.flows.together import Member

TAKEN_OVER = (
    "--config", "--recipe-dir", "--task-concurrency", "--reuse", "--results-dir", "--data-dir",
    "--env-open-qps", "--provider-limit", "--progress", "--log-level", "--file-log-level",
    "--auto-install-dependencies", "--dry-run", "--json",
)  # fmt: skip
"""Options of `run` that hold for every request here; they win over the file."""


@click.command("launch", cls=RunCommand)
@click.argument("file", type=TextValue(empty=False))
@with_options(*TAKEN_OVER)
def launch(file: str, dry_run: bool, json: bool, **typed: Any) -> int:
    """Carry out every request of FILE (YAML or JSON); one that fails stops no other.

    --task-concurrency is shared by all of them. The exit code is the worst of the requests'.
    """
    from agentcompass.components.execution.launch import plan_launch

    planned = plan_launch(file, typed)
    if dry_run:
        return _dry_run(planned, as_json=json)
    return _carry_out(planned, as_json=json)


def _dry_run(planned: "PlannedLaunch", *, as_json: bool) -> int:
    from agentcompass.cli.dry_run import preflight_of
    from agentcompass.cli.run_checks import check
    from agentcompass.components.configuration.secrets import holding

    documents, bad, attempts = [], False, 0
    for request, secrets in planned.requests:
        with holding(secrets):
            checked = check(request, install=False)
            problems = preflight_of(checked)
        bad = bad or bool(problems)
        documents.append(plan_document(checked) | {"problems": list(problems)})
        attempts += documents[-1]["planned_attempts"]
        if not as_json:
            put(f"── {label(request)}")
            for line in brief_lines(checked):
                put(line)
            for problem in problems:
                complain(f"agentcompass: {label(request)}: {problem}")
    if as_json:
        document = {"name": planned.name, "requests": documents, "exit_code": 3 if bad else 0}
        put(json.dumps(document, ensure_ascii=False, allow_nan=False, indent=2))
    else:
        put(f"{len(planned.requests)} requests, {attempts} attempts; every parameter: --json")
    return 3 if bad else 0


def _carry_out(planned: "PlannedLaunch", *, as_json: bool) -> int:
    from agentcompass.cli.rendering.progress import showing
    from agentcompass.cli.rendering.together import TogetherProgress
    from agentcompass.cli.run_checks import check
    from agentcompass.cli.run_execution import QUIET_LEVELS
    from agentcompass.components.configuration.secrets import holding
    from agentcompass.components.contracts.errors import PreflightRefused

    attempts = []
    for request, secrets in planned.requests:  # what is wrong in one is told before any is begun
        with holding(secrets):
            attempts.append(len(check(request).samples) * request.execution.attempts.k)
    from agentcompass.flows.local import connect, launch_locally
    from agentcompass.flows.server import ServerProblem

    settings = planned.requests[0][0].runtime
    with (
        showing(settings.progress, settings.log_level in QUIET_LEVELS) as (show, note),
        contextlib.redirect_stdout(sys.stderr),
    ):
        try:
            connect(note)
            from agentcompass.flows.session import Session
            from agentcompass.flows.together import Member

            sums = TogetherProgress(show, attempts)
            members = [
                Member(request, secrets, Session(listen=sums.listener(), note=note))
                for request, secrets in planned.requests
            ]
            sums.members = members
            signal = launch_locally(planned.name, members, planned.task_concurrency, settings, note)
            sums.finish()
        except ServerProblem as problem:
            raise PreflightRefused((str(problem),)) from problem
    return _tell(planned.name, members, signal, as_json=as_json)


def _tell(name: str, members: "list[Member]", signal: int | None, *, as_json: bool) -> int:
    code = max(4 if member.exit_code is None else member.exit_code for member in members)
    if signal is not None:
        code = 128 + signal
    if as_json:
        rows = [_document(member) for member in members]
        put(json.dumps({"name": name, "exit_code": code, "requests": rows}, ensure_ascii=False))
        return code
    for line in columns(table_lines(members)):
        put(line)
    for member in members:
        if member.problem:
            complain(f"agentcompass: {label(member.request)}: {member.problem}")
    return code


def _document(member: "Member") -> dict[str, Any]:
    from agentcompass.cli.rendering.launch import metrics_of

    metrics = metrics_of(member)
    return {
        "request": member.request.model_dump(mode="json"),
        "outcome": member.outcome.model_dump(mode="json") if member.outcome else None,
        "exit_code": member.exit_code,
        "problem": member.problem,
        "metrics": metrics.model_dump(mode="json") if metrics else None,
    }
