"""`agentcompass config show|validate|init`: the configuration files that apply."""

import json
from pathlib import Path
from typing import Any

import click

from agentcompass.cli.failed import CommandFailed
from agentcompass.cli.rendering.columns import columns
from agentcompass.cli.run_command import StrictCommand
from agentcompass.cli.streams import put
from agentcompass.cli.values import TextValue

_files = click.option(
    "--config",
    "files",
    metavar="FILE",
    multiple=True,
    type=TextValue(empty=False),
    help="A further file over the others. Repeatable.",
)

STARTING_FILE = """\
# AgentCompass, for every run started in this folder or below it (up to the repository's root).
# Over it go --config files, over these the command line; below it stands your own
# {users_file}
# All parameters: agentcompass config docs {{benchmark,harness,env}} ID

# execution:
#   task_concurrency: 8
#   attempts: {{k: 3}}
#   max_retries: 1

# runtime:
#   results_dir: results
#   provider_limits: {{docker: 16}}

# benchmarks:
#   quickstart: {{limit: 5, seed: 0}}

# environments:
#   docker:
#     resources: {{cpus: 2, memory_mb: 4096}}
#     env: {{HTTPS_PROXY: "${{HTTPS_PROXY}}"}}   # read from your shell when a sandbox opens
"""


@click.command("show", cls=StrictCommand)
@_files
@click.option("--origins", is_flag=True, help="Say which file said each value.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def show(files: tuple[str, ...], origins: bool, as_json: bool) -> int:
    """Print the configuration that applies here: all files merged, secrets masked."""
    from agentcompass.components.configuration.layers import leaves
    from agentcompass.components.execution.configured import configured

    found = configured(files)
    values = _masked(found.values)
    if as_json:
        document: dict[str, Any] = {"values": values}
        if origins:
            document["origins"] = dict(found.origins)
        put(json.dumps(document, ensure_ascii=False, indent=2))
        return 0
    rows = [
        (name, json.dumps(value, ensure_ascii=False), *([found.origins[name]] * origins))
        for name, value in leaves(values)
    ]
    for line in columns(rows):
        put(line)
    if not rows:
        put("nothing is configured; every value is the built-in one (agentcompass config init)")
    return 0


@click.command("validate", cls=StrictCommand)
@click.argument("files", nargs=-1, type=TextValue(empty=False))
def validate_files(files: tuple[str, ...]) -> int:
    """Check the files that apply here, and FILES over them, without running anything."""
    from agentcompass.components.execution.configured import configured

    names = [layer.name for layer in configured(files).layers]
    put("\n".join(f"{name}: in order" for name in names) or "there is no configuration file here")
    return 0


@click.command("init", cls=StrictCommand)
@click.option("--user", is_flag=True, help="Your own file, for all folders.")
def init(user: bool) -> int:
    """Write a commented starting file, ./agentcompass.yaml; never over one that is there."""
    from agentcompass.components.configuration.layers import PROJECT_FILE, users_file

    path = users_file() if user else Path(PROJECT_FILE)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("x", encoding="utf-8") as file:
            file.write(STARTING_FILE.format(users_file=users_file()))
    except FileExistsError:
        raise CommandFailed(f"{path} is there already; it was left as it is") from None
    except OSError as error:
        raise CommandFailed(f"{path} cannot be written: {error.strerror}") from None
    put(str(path))
    return 0


def _masked(values: Any, *path: str) -> Any:
    """Without secrets; what is a reference stays."""
    from agentcompass.components.configuration.showing import is_secret

    if isinstance(values, dict):
        return {key: _masked(value, *path, str(key)) for key, value in values.items()}
    if isinstance(values, list):
        return [_masked(value, *path) for value in values]
    return "***" if isinstance(values, str) and is_secret(path, values) else values
