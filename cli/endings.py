"""How a command ends that did not end well: one line on stderr, or one JSON document on stdout.

2 wrong usage or configuration; 3 preflight refused; 4 the run failed; 130 interrupted; 143
ended by SIGTERM.
"""

import json
import sys
import traceback
from collections.abc import Sequence
from typing import Any

import click

from agentcompass.cli.failed import CommandFailed
from agentcompass.cli.run_command import order_of
from agentcompass.cli.streams import complain, put, reader_is_gone


def report(error: BaseException, arguments: Sequence[str]) -> int:
    """Say what went wrong; the exit code."""
    code, lines, document = _explain(error)
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        complain(error.message)  # the whole help: nothing was asked for yet
    if code == 130 and sys.stderr.isatty():
        complain("")  # the terminal shows ^C on this line
    if code == 4 and _wants_debug(arguments):
        complain(_masked("".join(traceback.format_exception(error)).rstrip(), arguments))
    for line in lines:
        complain(_masked("agentcompass: " + _one_line(line), arguments))
    if "--json" in arguments:
        text = json.dumps({"error": document, "exit_code": code}, ensure_ascii=False)
        put(_masked(text, arguments))
    return code


def _explain(error: BaseException) -> tuple[int, list[str], dict[str, Any]]:
    """Exit code, lines for people, the error for machines."""
    if isinstance(error, BrokenPipeError) and reader_is_gone():  # `| head` has seen enough
        return 0, [], {}
    if isinstance(error, (KeyboardInterrupt, click.Abort)):
        return getattr(error, "exit_code", 130), ["interrupted"], {"problem": "interrupted"}
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        return 2, [], {"field": "command", "problem": "missing"}
    if isinstance(error, click.ClickException):
        field, problem, hint = _usage(error)
        return _wrong(field, problem, hint)
    # Imported late: `--help` never needs the contracts.
    from agentcompass.components.contracts.errors import (
        AgentCompassError,
        PreflightRefused,
        RequestError,
    )

    if isinstance(error, RequestError):
        return _wrong(error.field, error.problem, error.hint)
    if isinstance(error, PreflightRefused):
        return 3, list(error.problems), {"problems": list(error.problems)}
    if isinstance(error, AgentCompassError):
        return 4, [f"{error.code}: {error}"], {"code": str(error.code), "problem": str(error)}
    if isinstance(error, CommandFailed):
        return 4, [str(error)], {"problem": str(error)}
    if isinstance(error, SystemExit):
        return error.code if isinstance(error.code, int) else 4, [], {"problem": str(error.code)}
    problem = f"{type(error).__name__}: {error}"
    return (
        4,
        [f"unexpected: {problem}; add --log-level DEBUG for the traceback"],
        {"problem": problem},
    )


def _wrong(field: str, problem: str, hint: str) -> tuple[int, list[str], dict[str, Any]]:
    line = f"{field}: {problem}" + (f"; {hint}" if hint else "")
    return 2, [line], {"field": field, "problem": problem, "hint": hint}


def _usage(error: click.ClickException) -> tuple[str, str, str]:
    """Field, problem and hint of click's own complaints, in our words."""
    context: click.Context | None = getattr(error, "ctx", None)
    help_hint = f"see {context.command_path if context else 'agentcompass'} --help"
    if isinstance(error, click.NoSuchOption):
        return error.option_name, "no such option", _near_options(error, context) + help_hint
    if isinstance(error, click.MissingParameter) and error.param is not None:
        return _name(error.param), "missing", _order(context) + help_hint
    if isinstance(error, click.BadOptionUsage):
        missing = "requires an argument" in error.message
        problem = "a value is missing" if missing else "takes no value"
        return error.option_name.lstrip("-"), problem, help_hint
    if isinstance(error, click.BadParameter) and error.param is not None:
        return _name(error.param), error.message.rstrip("."), help_hint
    return "command line", error.format_message().rstrip("."), help_hint


def _near_options(error: click.NoSuchOption, context: click.Context | None) -> str:
    from agentcompass.components.configuration.spelling import nearest

    parameters = context.command.get_params(context) if context else []
    known = [name for p in parameters if isinstance(p, click.Option) for name in p.opts]
    hint = nearest(error.option_name, [name for name in known if name.startswith("--")])
    return f"{hint} " if hint.startswith("did you mean") else ""


def _order(context: click.Context | None) -> str:
    return f"{order_of(context.command, context)}; " if context else ""


def _name(parameter: click.Parameter) -> str:
    if isinstance(parameter, click.Argument):
        spelled = parameter.human_readable_name
        return (parameter.name or spelled) if spelled.startswith("{") else spelled
    return parameter.opts[-1].lstrip("-")


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _masked(text: str, arguments: Sequence[str]) -> str:
    """The text without the key, should a library have put it into its message."""
    keys = _keys(arguments)
    if not keys:
        return text
    from agentcompass.components.results.masking import Masker

    return Masker(keys).text(text)


def _keys(arguments: Sequence[str]) -> list[str]:
    option = "--model-api-key"
    found = [after for name, after in zip(arguments, arguments[1:], strict=False) if name == option]
    found += [a.partition("=")[2] for a in arguments if a.startswith(f"{option}=")]
    return [key for key in found if not key.startswith("--")]


def _wants_debug(arguments: Sequence[str]) -> bool:
    return (
        "--log-level" in arguments
        and any(a.upper() == "DEBUG" for a in arguments)
        or any(a.lower() == "--log-level=debug" for a in arguments)
    )
