"""`agentcompass run`: one evaluation request, carried out on this machine."""

from typing import Any

import click

from agentcompass.cli.run_command import RunCommand
from agentcompass.cli.run_options import with_options
from agentcompass.cli.values import TextValue
from agentcompass.components.execution.request import RunOptions, build_request


@click.command("run", cls=RunCommand)
@click.argument("benchmark", type=TextValue(empty=False))
@click.argument("harness", type=TextValue(empty=False))
@click.argument("model", type=TextValue(empty=False))
@with_options()
def run(**typed: Any) -> int:
    """Run HARNESS with MODEL on every selected task of BENCHMARK, judge it, report the number.

    Options that take JSON also take @file.json or @file.yaml. Select single tasks with
    --benchmark-params '{"sample_ids": ["…"]}'. The last line on stdout is the run's folder.

    Exit codes: 0 every planned attempt is scored; 1 finished, something is unscored; 2 wrong usage
    or configuration; 3 preflight refused; 4 the run failed; 130 interrupted (Ctrl-C), 143 ended by
    SIGTERM.
    """
    from agentcompass.cli.run_checks import check
    from agentcompass.components.configuration.secrets import holding

    options = RunOptions(**typed)
    request, secrets = build_request(options)
    with holding(secrets):
        checked = check(request, install=not options.dry_run)
        if options.dry_run:
            from agentcompass.cli.dry_run import dry_run

            return dry_run(checked, as_json=options.json)
    from agentcompass.cli.run_execution import execute

    return execute(request, secrets, as_json=options.json)
