"""`agentcompass new`: a component of your own, as a small package that works as it is."""

import click

from agentcompass.cli.run_command import StrictCommand
from agentcompass.cli.streams import put
from agentcompass.cli.values import TextValue, Word

KINDS = ("benchmark", "harness", "environment", "recipe", "analyzer")


@click.command("new", cls=StrictCommand)
@click.argument("kind", type=Word(*KINDS), metavar="{" + "|".join(KINDS) + "}")
@click.argument("name", type=TextValue(empty=False))
@click.option(
    "--directory",
    metavar="DIR",
    type=TextValue(empty=False),
    default=".",
    help="Where the package's folder is made; default: here.",
)
def new(kind: str, name: str, directory: str) -> int:
    """Write an installable package NAME with an example of KIND that runs, and its test.

    Then make it your own: docs/extending.md.
    """
    from agentcompass.components.contracts.user_path import user_path
    from agentcompass.components.templates.package import write_package

    folder, commands = write_package(kind, name, user_path(directory, "directory"))
    put(f"{folder}/ is written. Next:")
    for command in commands:
        put(f"  {command}")
    return 0
