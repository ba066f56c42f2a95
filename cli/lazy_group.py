"""A click group that imports a command only when it is called."""

import importlib
from collections.abc import Mapping
from typing import Any, NamedTuple

import click


class Entry(NamedTuple):
    target: str
    """`module:attribute` of the command."""
    summary: str
    """Its line in the group's help."""


class LazyGroup(click.Group):
    def __init__(self, *args: Any, entries: Mapping[str, Entry], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.entries = entries

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.entries)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in self.entries:
            return None
        module, _, attribute = self.entries[name].target.partition(":")
        command: click.Command = getattr(importlib.import_module(module), attribute)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click's own, but an unknown command is refused in the program's style."""
        if args and not args[0].startswith("-") and args[0] not in self.entries:
            from agentcompass.components.configuration.spelling import nearest
            from agentcompass.components.contracts.errors import RequestError

            field = "command" if ctx.parent is None else ctx.command_path.split(maxsplit=1)[1]
            raise RequestError(field, f"no command {args[0]!r}", nearest(args[0], self.entries))
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.summary) for name, entry in self.entries.items()])
