"""The page of each command, from click itself, and the index of them all."""

import inspect
import re
from collections.abc import Iterator

import click

from agentcompass.cli.program import CONTEXT, program
from agentcompass.cli.run_command import ARGUMENTS, LAST_SECTION, RunCommand, RunOption
from docs.markdown import NOTICE, escaped, page, table

ROOT = "agentcompass"


def command_pages() -> dict[str, str]:
    """File name below docs/ → content."""
    top = click.Context(program, info_name=ROOT, **CONTEXT)  # type: ignore[arg-type]
    pages = {"commands.md": _index(top)}
    for inner in _below(top):
        pages[f"commands/{inner.info_name}.md"] = _page(inner)
    return pages


def _index(top: click.Context) -> str:
    rows = []
    for command in _below(top):
        file = f"commands/{command.info_name}.md"
        rows.append((f"[`{command.command_path}`]({file})", _first_line(command)))
        for inner in _below(command):
            place = f"{file}#{_anchor(inner.command_path)}"
            rows.append((f"[`{inner.command_path}`]({place})", _first_line(inner)))
    return page(
        "# Commands\n",
        NOTICE,
        _description(top),
        table(("command", "what it does"), rows),
        "Every command takes `-h` and `--help`; `agentcompass --version` prints the version.\n",
    )


def _page(context: click.Context) -> str:
    parts = [f"# `{context.command_path}`\n", NOTICE, *_body(context, "##")]
    for inner in _below(context):
        parts += [f"## `{inner.command_path}`\n", *_body(inner, "###")]
    return page(*parts)


def _body(context: click.Context, heading: str) -> Iterator[str]:
    usage = " ".join([context.command_path, *context.command.collect_usage_pieces(context)])
    yield f"```\n{usage}\n```\n"
    yield _description(context)
    if isinstance(context.command, RunCommand):  # its arguments have descriptions
        arguments = [p for p in context.command.params if isinstance(p, click.Argument)]
        rows = [(f"`{a.make_metavar(context)}`", ARGUMENTS[a.name or ""]) for a in arguments]
        yield f"{heading} Arguments\n"
        yield table(("argument", "meaning"), rows)
    for section, options in _sections(context).items():
        yield f"{heading} {section}\n"
        yield table(("option", "default", "meaning"), options)


def _sections(context: click.Context) -> dict[str, list[tuple[str, str, str]]]:
    """As in the command's --help."""
    sections: dict[str, list[tuple[str, str, str]]] = {}
    usual = LAST_SECTION if isinstance(context.command, RunCommand) else "Options"
    for option in context.command.params:
        record = None
        if isinstance(option, click.Option):
            record = click.Option.get_help_record(option, context)
        if isinstance(option, click.Option) and record is not None:
            row = (f"`{record[0]}`", _default(option), _code(record[1]))
            sections.setdefault(getattr(option, "section", usual), []).append(row)
    return sections


def _default(option: click.Option) -> str:
    if isinstance(option, RunOption) and option.shown_default:
        return option.shown_default
    if option.required:
        return "required"
    if option.is_flag:
        return "on" if option.default is True else "off"
    given = not option.multiple and isinstance(option.default, str | int | float)
    return f"`{option.default}`" if given else "none"


def _description(context: click.Context) -> str:
    """The command's help, in which option names and file names read as such."""
    text = inspect.cleandoc(context.command.help or "")
    return _code(escaped(text)) + "\n" if text else ""


def _code(text: str) -> str:
    """`--options 'and their values'` between backticks."""
    return re.sub(r"(?<![\w`-])(--?[a-z][a-z-]*( '[^']*')?)(?![\w`])", r"`\1`", text)


def _first_line(context: click.Context) -> str:
    return context.command.get_short_help_str(limit=200)


def _below(context: click.Context) -> list[click.Context]:
    """A group's commands."""
    if not isinstance(context.command, click.Group):
        return []
    found = []
    for name in context.command.list_commands(context):
        command = context.command.get_command(context, name)
        if command is not None and not command.hidden:
            found.append(click.Context(command, info_name=name, parent=context))
    return found


def _anchor(heading: str) -> str:
    return heading.replace(" ", "-")
