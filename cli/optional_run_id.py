"""`--reuse [RUN-ID]`: whether the word after it is a run's id or an argument of the command."""

import re

import click

from agentcompass.cli.streams import complain
from agentcompass.components.contracts.errors import RequestError

OPTION = "--reuse"
LATEST = "latest"
_START_TIME = re.compile(r"\d{8}_\d{6}.*")
"""How runs are named that were given no id."""


def told_apart(command: click.Command, ctx: click.Context, args: list[str]) -> list[str]:
    """The words, with `--reuse=latest` where click would take an argument for the run's id.

    It is an argument if one is missing without it. RequestError if one is missing and the word
    can only be an id.
    """
    words = args[: args.index("--")] if "--" in args else args
    arguments = [p for p in command.params if isinstance(p, click.Argument)]
    missing = _missing(command, ctx, args, arguments)
    if words.count(OPTION) != 1 or len(missing) != 1:
        return args
    at = words.index(OPTION)
    word = words[at + 1] if at + 1 < len(words) else "-"
    if word.startswith("-"):
        return args
    if word == LATEST or _START_TIME.fullmatch(word):
        order = " ".join(one.make_metavar(ctx) for one in arguments)
        raise RequestError(
            "command line",
            f"an argument is missing: {word!r} is the run that {OPTION} names",
            f"the order is {order}",
        )
    changed = [*args[:at], f"{OPTION}={LATEST}", *args[at + 1 :]]
    if len(arguments) > 1 and word == _parsed(command, ctx, changed).get(arguments[-1].name):
        # Any word may be a model's name, so this might have been a run and the model forgotten.
        name = arguments[-1].make_metavar(ctx)
        complain(f"agentcompass: {word!r} is taken as {name}; {OPTION}=RUN-ID names a run")
    return changed


def _missing(
    command: click.Command, ctx: click.Context, args: list[str], arguments: list[click.Argument]
) -> list[click.Argument]:
    found = _parsed(command, ctx, args)
    return [one for one in arguments if one.name not in found]


def _parsed(command: click.Command, ctx: click.Context, args: list[str]) -> dict[str | None, str]:
    values, _, _ = command.make_parser(ctx).parse_args(args=list(args))
    return {name: value for name, value in values.items() if isinstance(value, str)}
