"""A way out that names an option names one that exists."""

import re
from collections.abc import Iterator
from pathlib import Path

import click

from agentcompass.cli.program import program

ROOT = Path(__file__).parents[2]
ADVICE = re.compile(r"\b(?:add|lower|pass|raise|use|with|without) (--[a-z][a-z-]*)")
CONTINUED = re.compile(r'"\s*\n\s*f?"')
"""A text of several lines, as the sources hold it."""


def options(command: click.Command, context: click.Context) -> Iterator[str]:
    for parameter in command.get_params(context):
        yield from (*parameter.opts, *parameter.secondary_opts)
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None
            yield from options(inner, click.Context(inner, parent=context))


def test_every_option_in_a_hint_exists() -> None:
    known = set(options(program, click.Context(program)))
    assert "--task-concurrency" in known
    named = {
        (str(path.relative_to(ROOT)), option)
        for part in ("cli", "components", "flows")
        for path in (ROOT / part).rglob("*.py")
        for option in ADVICE.findall(CONTINUED.sub("", path.read_text(encoding="utf-8")))
    }
    assert len(named) > 10
    assert [one for one in sorted(named) if one[1] not in known] == []
