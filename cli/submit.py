"""`agentcompass submit`: the same request, as a run of a Prefect deployment."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from agentcompass.cli.run_command import RunCommand
from agentcompass.cli.run_options import OPTIONS, option, with_options
from agentcompass.cli.streams import complain, put
from agentcompass.cli.values import TextValue
from agentcompass.components.execution.request import RunOptions, build_request

if TYPE_CHECKING:
    from agentcompass.components.contracts.run import RunRequest
    from agentcompass.components.results.metrics_record import Metrics
    from agentcompass.flows.submit import Followed, Submitted

INTERRUPTED = 130
UNKNOWN = 4
_WHERE = "Where it runs"
_NOT_HERE = ("--dry-run", "--progress")
TAKEN_OVER = tuple(one.name for one in OPTIONS if one.name not in _NOT_HERE)


@click.command("submit", cls=RunCommand)
@click.argument("benchmark", type=TextValue(empty=False))
@click.argument("harness", type=TextValue(empty=False))
@click.argument("model", type=TextValue(empty=False))
@option(
    "--deployment",
    _WHERE,
    metavar="NAME",
    type=TextValue(empty=False),
    shown_default="evaluate",
    help="The deployment that carries it out, or FLOW/NAME (docs/nightly.md).",
)
@option(
    "--wait",
    _WHERE,
    is_flag=True,
    help="Follow the run and end with its exit code. Ctrl-C ends the waiting, not the run.",
)
@with_options(*TAKEN_OVER)
def submit(deployment: str | None, wait: bool, **typed: Any) -> int:
    """Hand the request that `run` would carry out to a Prefect deployment, and print its run.

    A worker carries it out: paths are those of its machine, and keys are named, not given, as
    '${NAME}' (a variable of the worker) or '${block:NAME}' (a Prefect Secret block).
    """
    from agentcompass.components.contracts.errors import PreflightRefused
    from agentcompass.components.execution.plan import resolve

    options = RunOptions(**typed)
    request, secrets = build_request(options)
    _refuse_values(request, secrets)
    resolve(request)
    from agentcompass.flows.handing_over import hand_over
    from agentcompass.flows.server import ServerProblem

    try:
        handed = hand_over(request, deployment or "evaluate", _note)
    except ServerProblem as problem:
        raise PreflightRefused((str(problem),)) from problem
    if handed.warning:
        complain(f"agentcompass: {handed.warning}")
    if not wait:
        return _told(handed, as_json=options.json)
    return _wait(handed, as_json=options.json)


def _refuse_values(request: "RunRequest", secrets: Iterable[str]) -> None:
    """Prefect stores what a run is handed: a secret must be named instead."""
    from agentcompass.components.configuration.secrets import (
        HELD_HEADER,
        HELD_KEY,
        HELD_QUERY,
        HELD_URL,
        HELD_VARIABLE,
    )
    from agentcompass.components.contracts.errors import RequestError
    from agentcompass.components.execution.typed_secrets import place_of

    fields = {
        HELD_KEY: "model-api-key",
        HELD_URL: "model-base-url",
        HELD_QUERY: "model-base-url",
        HELD_HEADER: "model-params.headers",
    }
    for name in secrets:
        field = next((field for held, field in fields.items() if name.startswith(held)), "secret")
        if name.startswith(HELD_VARIABLE):
            field = place_of(name, request)
        block = " or '${block:NAME}' for a Prefect Secret block" if name == HELD_KEY else ""
        raise RequestError(
            field,
            "holds a secret, which would be stored with the flow run",
            f"name it: '${{NAME}}', in single quotes, for a variable of the worker{block}",
        )


def _note(line: str) -> None:
    complain(f"agentcompass: {line}")


def _told(handed: "Submitted", *, as_json: bool) -> int:
    if as_json:
        document = {"flow_run_id": handed.id, "name": handed.name, "url": handed.url}
        put(json.dumps({**document, "exit_code": 0}, ensure_ascii=False))
        return 0
    put(handed.url)
    put(handed.id)
    return 0


def _wait(handed: "Submitted", *, as_json: bool) -> int:
    from agentcompass.cli.failed import CommandFailed
    from agentcompass.flows.handing_over import wait_for
    from agentcompass.flows.submit import ApiGone

    _note(f"{handed.id} {handed.url}")
    goes_on = f"the run goes on: {handed.url} (to end it: prefect flow-run cancel {handed.id})"
    try:
        ended = wait_for(handed.id, lambda line: complain(f"agentcompass: {line}"))
    except KeyboardInterrupt:
        complain(f"agentcompass: no longer waiting; {goes_on}")
        if as_json:
            document = {"flow_run_id": handed.id, "url": handed.url, "problem": "interrupted"}
            put(json.dumps({**document, "exit_code": INTERRUPTED}, ensure_ascii=False))
        return INTERRUPTED
    except ApiGone as gone:
        raise CommandFailed(f"{gone}; {goes_on}") from None
    return _tell_end(handed, ended, as_json=as_json)


def _tell_end(handed: "Submitted", ended: "Followed", *, as_json: bool) -> int:
    from agentcompass.cli.rendering.results import result_lines

    run_dir = str(ended.labels.get("run_dir", ""))
    metrics = _metrics(run_dir)
    code, problem = _judged(ended, metrics)
    if as_json:
        document = {
            "flow_run_id": handed.id,
            "url": handed.url,
            "state": ended.state,
            "exit_code": code,
            "run_dir": run_dir or None,
            "planned": ended.labels.get("planned"),
            "scored": ended.labels.get("scored"),
            "score": ended.labels.get("score"),
            "problem": problem,
            "metrics": metrics.model_dump(mode="json") if metrics else None,
        }
        put(json.dumps(document, ensure_ascii=False, allow_nan=False))
    elif metrics is not None:
        for line in result_lines(metrics):
            put(line)
    if problem:
        complain(f"agentcompass: {ended.state}: {problem}")
    if not as_json:
        put(run_dir or handed.url)
    return code


def _judged(ended: "Followed", metrics: "Metrics | None") -> tuple[int, str]:
    """Exit code and problem. A run that did not tell the API its own is read in its folder."""
    if ended.exit_code is not None:
        return ended.exit_code, ended.problem
    if metrics is not None:
        return (1 if metrics.coverage.lacking else 0), ended.problem
    where = ended.labels.get("run_dir") or "its folder"
    return UNKNOWN, f"whether every attempt is scored is not known here: see {where}/metrics.json"


def _metrics(run_dir: str) -> "Metrics | None":
    """Its numbers, where the run's folder can be seen from here."""
    from agentcompass.components.contracts.errors import RequestError
    from agentcompass.components.results.metrics_record import Metrics
    from agentcompass.components.results.reading import read_record

    try:
        return read_record(Path(run_dir) / "metrics.json", "metrics", Metrics) if run_dir else None
    except RequestError as error:
        complain(f"agentcompass: {error}")
        return None
