"""`agentcompass launch`: several requests from one file."""

import contextlib
import json
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from agentcompass.cli.rendering.launch import label, room_for_table, table_lines
from agentcompass.cli.rendering.plan import brief_lines, plan_document
from agentcompass.cli.run_command import RunCommand
from agentcompass.cli.run_options import with_options
from agentcompass.cli.streams import complain, put
from agentcompass.cli.values import TextValue
from agentcompass.components.results.numbers_shown import count

if TYPE_CHECKING:
    from agentcompass.cli.run_checks import Checked
    from agentcompass.components.execution.launch import PlannedLaunch, WrongRequests
    from agentcompass.flows.together import Member

TAKEN_OVER = (
    "--config", "--recipe-dir", "--task-concurrency", "--reuse", "--results-dir", "--data-dir",
    "--env-open-qps", "--provider-limit", "--progress", "--log-level", "--file-log-level",
    "--auto-install-dependencies", "--dry-run", "--json",
)  # fmt: skip
"""Options of `run` that hold for every request here; they win over the file."""

Seen = TypeVar("Seen")


@click.command("launch", cls=RunCommand)
@click.argument("file", type=TextValue(empty=False))
@with_options(*TAKEN_OVER)
def launch(file: str, dry_run: bool, json: bool, **typed: Any) -> int:
    """Carry out every request of FILE (YAML or JSON); one that fails stops no other.

    A request that is impossible as written stops all before any is begun. --task-concurrency is
    shared by all of them; in the file, a request may say less for itself. The exit code is the
    worst of the requests'.
    """
    from agentcompass.components.execution.launch import WrongRequests, plan_launch

    planned = plan_launch(file, typed)
    try:
        return (_dry_run if dry_run else _carry_out)(planned, as_json=json)
    except WrongRequests as error:
        return _refuse(error, as_json=json)


def _refuse(error: "WrongRequests", *, as_json: bool) -> int:
    """A line for each wrong request. 3 where nothing has to be corrected, only to be there."""
    from agentcompass.components.contracts.errors import RequestError

    for title, problem in error.wrong:
        complain(" ".join(f"agentcompass: {title}: {problem}".split()))
    code = 2 if any(isinstance(problem, RequestError) for _, problem in error.wrong) else 3
    if as_json:
        problems = [{"request": title, "problem": str(problem)} for title, problem in error.wrong]
        document = {"error": {"problems": problems}, "exit_code": code}
        put(json.dumps(document, ensure_ascii=False))
    return code


def _checked(
    planned: "PlannedLaunch", look: "Callable[[Checked], Seen]", *, install: bool
) -> list[Seen]:
    """What `look` finds in each request that was checked. WrongRequests names all that are."""
    from agentcompass.cli.run_checks import check
    from agentcompass.components.configuration.secrets import holding
    from agentcompass.components.contracts.errors import PreflightRefused, RequestError

    found: list[Seen] = []
    wrong: list[tuple[str, RequestError | PreflightRefused]] = []
    for request, secrets, title in planned.requests:
        with holding(secrets):
            try:
                found.append(look(check(request, install=install)))
            except (RequestError, PreflightRefused) as error:
                wrong.append((title, error))
    planned.refuse(wrong)
    return found


def _dry_run(planned: "PlannedLaunch", *, as_json: bool) -> int:
    from agentcompass.cli.dry_run import preflight_of

    def look(checked: "Checked") -> tuple[list[str], dict[str, Any]]:
        document = plan_document(checked) | {"problems": list(preflight_of(checked))}
        return list(brief_lines(checked)), document

    seen = _checked(planned, look, install=False)
    documents = [document for _, document in seen]
    code = 3 if any(document["problems"] for document in documents) else 0
    if as_json:
        whole = {"name": planned.name, "requests": documents, "exit_code": code}
        put(json.dumps(whole, ensure_ascii=False, allow_nan=False, indent=2))
        return code
    for (request, _, title), (lines, document) in zip(planned.requests, seen, strict=True):
        put(f"── {label(request)}")
        for line in lines:
            put(line)
        for problem in document["problems"]:
            complain(f"agentcompass: {title}: {problem}")
    attempts = sum(document["planned_attempts"] for document in documents)
    put(
        f"{count(len(documents), 'request')}, {count(attempts, 'attempt')}; every parameter: --json"
    )
    return code


def _carry_out(planned: "PlannedLaunch", *, as_json: bool) -> int:
    from agentcompass.cli.rendering.progress import showing
    from agentcompass.cli.rendering.together import TogetherProgress
    from agentcompass.cli.run_execution import QUIET_LEVELS
    from agentcompass.components.contracts.errors import PreflightRefused

    # What is wrong in any request is told before one is begun.
    attempts = _checked(
        planned, lambda c: len(c.samples) * c.plan.request.execution.attempts.k, install=True
    )
    from agentcompass.flows.local import connect, launch_locally
    from agentcompass.flows.server import ServerProblem

    settings = planned.requests[0].request.runtime
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
                for request, secrets, _ in planned.requests
            ]
            sums.members = members
            signal = launch_locally(planned.name, members, planned.task_concurrency, settings, note)
            sums.finish()
        except ServerProblem as problem:
            raise PreflightRefused((str(problem),)) from problem
    return _tell(planned, members, signal, as_json=as_json)


def _tell(
    planned: "PlannedLaunch", members: "list[Member]", signal: int | None, *, as_json: bool
) -> int:
    code = max(4 if member.exit_code is None else member.exit_code for member in members)
    if signal is not None:
        code = 128 + signal
    if as_json:
        rows = [_document(member) for member in members]
        document = {"name": planned.name, "exit_code": code, "requests": rows}
        put(json.dumps(document, ensure_ascii=False))
        return code
    for line in table_lines(members, room_for_table()):
        put(line)
    for member, request in zip(members, planned.requests, strict=True):
        if member.problem:
            complain(f"agentcompass: {request.title}: {member.problem}")
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
