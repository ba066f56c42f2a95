"""`agentcompass server`: the local Prefect server that the first run starts and all share."""

import json
from dataclasses import asdict
from typing import Any

import click

from agentcompass.cli.failed import CommandFailed
from agentcompass.cli.lazy_group import Entry, LazyGroup
from agentcompass.cli.run_command import StrictCommand
from agentcompass.cli.streams import complain, put

_HELP = """\
Start, stop or look for the local Prefect server.

The first `run` starts it by itself and it stays: later runs and the UI share it.
"""

server = LazyGroup(
    "server",
    help=_HELP,
    entries={
        "start": Entry("agentcompass.cli.server:start", "Start the server, unless it runs."),
        "stop": Entry("agentcompass.cli.server:stop", "Stop the server. Runs under way lose it."),
        "status": Entry("agentcompass.cli.server:status", "Say whether the server runs and where."),
    },
)


@click.command("start", cls=StrictCommand)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def start(as_json: bool) -> int:
    """Start the server, unless it runs."""
    from agentcompass.flows import server as local_server

    try:
        state = local_server.start()
    except local_server.ServerProblem as problem:
        raise CommandFailed(str(problem)) from None
    put(_document(state) if as_json else _sentence(state))
    return 0


@click.command("stop", cls=StrictCommand)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def stop(as_json: bool) -> int:
    """Stop the server. Runs under way lose it."""
    from agentcompass.flows import server as local_server

    stopped = local_server.stop()
    put(json.dumps({"stopped": stopped}) if as_json else "stopped" if stopped else "not running")
    return 0


@click.command("status", cls=StrictCommand)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option("--url", is_flag=True, help="Print the address of its API, for PREFECT_API_URL.")
def status(as_json: bool, url: bool) -> int:
    """Say whether the server runs and where; exit code 1 if it does not."""
    from agentcompass.flows import server as local_server

    state = local_server.status()
    if as_json:
        put(_document(state))
    elif state:
        put(state.url if url else _sentence(state))
    elif url:
        complain("agentcompass: not running")  # stdout goes into a variable
    else:
        put("not running")
    return 0 if state else 1


def _sentence(state: Any) -> str:
    return f"running: {state.ui_url} (pid {state.pid}, since {state.started_at}, in {state.home})"


def _document(state: Any) -> str:
    return json.dumps({"running": state is not None, **(asdict(state) if state else {})})
