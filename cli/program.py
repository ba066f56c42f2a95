"""The commands of agentcompass, by name; each is imported when it is called."""

from collections.abc import Sequence

import click

from agentcompass import __version__
from agentcompass.cli.lazy_group import Entry, LazyGroup

CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


@click.group(
    cls=LazyGroup,
    context_settings=CONTEXT,
    entries={
        "run": Entry("agentcompass.cli.run:run", "Run one evaluation on this machine."),
        "launch": Entry("agentcompass.cli.launch:launch", "Run several requests from a file."),
        "validate": Entry(
            "agentcompass.cli.validate:validate", "Is a benchmark sound, here and now?"
        ),
        "analysis": Entry(
            "agentcompass.cli.analysis:analysis", "Run the analyzers over a finished run."
        ),
        "summary": Entry(
            "agentcompass.cli.summary:summary", "Make a run's numbers again from its details."
        ),
        "rescore": Entry(
            "agentcompass.cli.rescore:rescore", "Judge a run's kept work again, without the agent."
        ),
        "submit": Entry(
            "agentcompass.cli.submit:submit", "Hand an evaluation to a Prefect deployment."
        ),
        "list": Entry(
            "agentcompass.cli.list_components:list_components", "List what is registered."
        ),
        "new": Entry("agentcompass.cli.new:new", "Write a component of your own, with its test."),
        "config": Entry(
            "agentcompass.cli.config:config", "Explain, show, check or start the configuration."
        ),
        "env": Entry(
            "agentcompass.cli.env:env", "List or remove sandboxes that dead runs left behind."
        ),
        "server": Entry(
            "agentcompass.cli.server:server", "Start, stop or look for the local Prefect server."
        ),
    },
)
@click.version_option(__version__, prog_name="agentcompass", message="%(prog)s %(version)s")
def program() -> None:
    """Measure LLM agents on benchmarks.

    Exit codes: 0 every planned attempt is scored; 1 finished, something is unscored; 2 wrong usage
    or configuration; 3 preflight refused; 4 the run failed; 130 interrupted (Ctrl-C), 143 ended by
    SIGTERM.
    """


def carry_out(arguments: Sequence[str]) -> int:
    """The exit code; whatever goes wrong rises. (click's own `main` would print and exit.)"""
    try:
        with program.make_context("agentcompass", list(arguments)) as context:
            code: int | None = program.invoke(context)
    except click.exceptions.Exit as ended:  # --help, --version
        return ended.exit_code
    return code or 0
