"""click's command and option, with nothing swallowed in silence and sections in the help."""

from collections import Counter
from typing import Any

import click

from agentcompass.cli.optional_run_id import told_apart
from agentcompass.components.contracts.errors import RequestError

LAST_SECTION = "How to answer"
ARGUMENTS = {
    "benchmark": "What to solve and how it is judged (agentcompass list benchmark).",
    "file": "The launch file (docs/launch.md).",
    "harness": "The agent (agentcompass list harness).",
    "model": (
        "The model's name at the endpoint, or a built-in one that answers from a file: "
        'scripted, replay. In a shell: "$MODEL_NAME".'
    ),
    "run_dir": "The folder of a run: the last line that run printed.",
}


class RunOption(click.Option):
    def __init__(self, *args: Any, section: str, shown_default: str = "", **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.section = section
        self.shown_default = shown_default

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        record = super().get_help_record(ctx)
        if record is None or not self.shown_default:
            return record
        return record[0], f"{record[1]}  [default: {self.shown_default}]"


class StrictCommand(click.Command):
    """Refuses what click would accept and a user did not mean."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            args = told_apart(self, ctx, args)
            self._refuse_swallowed(ctx, args)
        except click.UsageError as error:
            error.ctx = error.ctx or ctx
            raise
        return super().parse_args(ctx, args)

    def _refuse_swallowed(self, ctx: click.Context, args: list[str]) -> None:
        values, rest, order = self.make_parser(ctx).parse_args(args=list(args))
        for parameter, count in Counter(order).items():
            if count > 1 and isinstance(parameter, click.Option) and not parameter.multiple:
                raise RequestError(_bare(parameter), f"given {count} times", "give it once")
        names = {name for p in self.get_params(ctx) for name in p.opts}
        for parameter in self.get_params(ctx):
            value = values.get(parameter.name or "")
            for one in value if isinstance(value, list) else [value]:
                if isinstance(parameter, click.Option) and one in names:
                    raise RequestError(
                        _bare(parameter), f"a value is missing: {one!r} is the next option"
                    )
        if rest:
            shown = "" if "model_api_key" in values else f", the first is {str(rest[0])[:40]!r}"
            raise RequestError(
                "command line",
                f"{len(rest)} argument{'s' * (len(rest) > 1)} too many{shown}",
                f"{order_of(self, ctx)}; put quotes around values with blanks or braces",
            )


class RunCommand(StrictCommand):
    """With the sections of its options in the help."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        taken = [p.name or "" for p in self.get_params(ctx) if isinstance(p, click.Argument)]
        with formatter.section("Arguments"):
            formatter.write_dl([(name.upper(), ARGUMENTS[name]) for name in taken])
        sections: dict[str, list[tuple[str, str]]] = {}
        for option in self.get_params(ctx):
            record = option.get_help_record(ctx) if isinstance(option, click.Option) else None
            if record is not None:
                section = getattr(option, "section", LAST_SECTION)
                sections.setdefault(section, []).append(record)
        for section, records in sections.items():
            with formatter.section(section):
                formatter.write_dl(records)


def order_of(command: click.Command, ctx: click.Context) -> str:
    """`the order is BENCHMARK HARNESS MODEL`"""
    arguments = [p for p in command.params if isinstance(p, click.Argument)]
    if not arguments:
        return "it takes none"
    return f"the order is {' '.join(p.make_metavar(ctx) for p in arguments)}"


def _bare(option: click.Option) -> str:
    return option.opts[-1].lstrip("-")
