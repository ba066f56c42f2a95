"""One run of an instance's tests in the sandbox, and the account of it that the warden gives.

How a runner is watched follows from its command:

    pytest …, tox …             our reporter as a pytest plugin
    python -m unittest …        our reporter first, then unittest
    ./tests/runtests.py …       our reporter first, then Django's script
    bin/test …                  our reporter first, then SymPy's script
    anything else               its output is read as the official harness does (see logs.py)
"""

import json
import re
import secrets
import shlex
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Literal

from agentcompass.components.benchmarks import _judge
from agentcompass.components.benchmarks._swebench.installed import from_source
from agentcompass.components.contracts.errors import AgentCompassError, Code
from agentcompass.components.contracts.frozen import Frozen
from agentcompass.components.contracts.sandbox import Environment, ExecResult

Watching = Literal["plugin", "script", "log"]
OUTPUT_LIMIT_BYTES = 1024 * 1024
LOG_LIMIT_BYTES = 32 * 1024 * 1024
ACCOUNT_LIMIT_KB = 160 * 1024
OVERHEAD_SECONDS = 120.0
FIXED_VARIABLES: Mapping[str, str | None] = {
    "TZ": "UTC",
    "LC_ALL": "C.UTF-8",
    "LANG": "C.UTF-8",
    "PYTHONHASHSEED": "0",
    "TOX_OVERRIDE": "testenv.pass_env+=PYTEST_ADDOPTS,PYTHONPATH,PYTHONHASHSEED",
    # Of the machine's making: they would change what the tests see.
    "PYTHONSTARTUP": None,
    "PYTHONDONTWRITEBYTECODE": None,
    "PYTEST_ADDOPTS": None,
    "PYTEST_PLUGINS": None,
}
"""None: not set."""
_ASSIGNMENT = re.compile(r"\s*[A-Za-z_][A-Za-z0-9_]*=('[^']*'|\"[^\"]*\"|\S*)")


class Outcome(Frozen):
    name: str
    when: str = "call"
    outcome: str
    expected: bool = False
    """pytest: marked as an expected failure."""
    raised: str = ""
    """pytest: the exception that really came out of the test's call."""
    text: str = ""


class Account(Frozen):
    """What the warden saw."""

    outcomes: tuple[Outcome, ...] = ()
    broken: tuple[Outcome, ...] = ()
    """Files that could not be collected or imported."""
    started: bool = False
    """The runner was up, with our reporter in it."""
    status: int | None = None
    """The runner's own word at its end; None: it did not come to its end."""
    exit_code: int | None = None
    timed_out: bool = False
    starved: bool = False
    """Over its time on a machine that let it run for less than half of it."""
    out_of_memory: bool = False
    """The sandbox's memory limit killed something meanwhile."""
    canary: str = ""
    """The name of the test that fails; empty: the run was not watched."""
    canary_added: bool | None = None
    """The runner was given it; None: it did not say that it was about to run tests."""
    strangers: int = 0
    """Others who tried to report."""
    output: str = ""


def watching(command: str) -> Watching:
    program = _split(command)[2]
    if program[:1] in (["pytest"], ["py.test"], ["tox"]) or "pytest" in program[:3]:
        return "plugin"
    if program[0].endswith(".py") or program[0] == "bin/test" or "unittest" in program[:3]:
        return "script"
    return "log"


async def run_tests(
    env: Environment,
    commands: tuple[str, ...],
    *,
    before: str = "",
    timeout_seconds: float,
    variables: Mapping[str, str | None] = {},
    how: Watching | None = None,
) -> Account:
    """`how`: else as the last command wants it. What was left running is ended.

    `timeout_seconds`: of the tests' own time, waiting for a processor apart; at most the double
    passes. Raises grader.crashed or grader.timeout when the warden itself cannot work.
    """
    how = how or watching(commands[-1])
    lines = [_watched(command) if how == "script" else command for command in commands]
    request = {
        "token": secrets.token_hex(16),
        "reporter": _source("reporter"),
        "plugin": how == "plugin",
        "script": before + "\n".join(lines),
        "workdir": env.workdir,
        "env": {**FIXED_VARIABLES, **variables},
        "timeout_seconds": timeout_seconds,
        "output_limit_bytes": LOG_LIMIT_BYTES if how == "log" else OUTPUT_LIMIT_BYTES,
    }
    own = [(f"{__package__}.{name}", _source(name)) for name in ("starving", "warden")]
    start = {"sources": [*_judge.sources(), *own], "main": f"{__package__}.warden"}
    result = await env.exec(
        ["python3", *from_source(), "-c", _judge.LOADER, "0"],
        cwd="/",
        stdin=b"".join(json.dumps(part).encode("ascii") + b"\n" for part in (start, request)),
        timeout_seconds=2 * timeout_seconds + OVERHEAD_SECONDS,
        output_limit_kb=ACCOUNT_LIMIT_KB,
    )
    return _account(result, str(request["token"]))


def probe_command(command: str) -> str:
    """One that only shows whether the runner starts."""
    assignments, _, words = _split(command)
    if watching(command) == "plugin":
        words = ["python", "-m", "pytest"] if words[0] == "tox" else words
        until = next(n for n, word in enumerate(words) if word in ("pytest", "py.test")) + 1
        return assignments + shlex.join([*words[:until], "--help"])
    if "-m" in words[:2]:
        return assignments + shlex.join([*words[: words.index("-m") + 2], "--help"])
    return assignments + shlex.join([words[0], "--help"])


def _watched(command: str) -> str:
    """The command with the reporter between Python and the runner."""
    assignments, rest, words = _split(command)
    if words[0].startswith("python"):
        interpreter, _, rest = rest.partition(" ")
        return f"{assignments}{interpreter} @REPORTER@ {rest}"
    return f'{assignments}"$(command -v python || command -v python3)" @REPORTER@ {rest}'


def _split(command: str) -> tuple[str, str, list[str]]:
    """The variables set in front of a command, the command itself, and its words."""
    end = 0
    while found := _ASSIGNMENT.match(command, end):
        end = found.end()
    rest = command[end:].strip()
    try:
        words = shlex.split(rest)
    except ValueError:
        words = rest.split()
    return command[:end] + " " if end else "", rest, words or [""]


def _account(result: ExecResult, token: str) -> Account:
    said = None
    for line in result.stdout.split("\n"):
        if token in line:
            try:
                said = json.loads(line)["account"]
            except (ValueError, KeyError, TypeError):
                continue
    if said is None:
        raise _no_account(result)
    events: list[dict[str, Any]] = said.pop("events")
    facts: dict[str, list[Outcome]] = {"test": [], "broken": []}
    for event in events:
        if (kind := event.get("event")) in ("test", "broken"):
            facts[kind].append(_outcome(event))
    begun = [event for event in events if event.get("event") == "collected"]
    finished = [event["status"] for event in events if event.get("event") == "finish"]
    return Account(
        outcomes=tuple(facts["test"]),
        broken=tuple(facts["broken"]),
        started=any(event.get("event") == "hello" for event in events),
        status=finished[-1] if finished and isinstance(finished[-1], int) else None,
        out_of_memory=result.out_of_memory,
        canary_added=any(event.get("canary") is True for event in begun) if begun else None,
        **said,
    )


def _outcome(event: Mapping[str, Any]) -> Outcome:
    return Outcome(
        name=_judge.printable(str(event.get("name", ""))),
        when=str(event.get("when", "call")),
        outcome=str(event.get("outcome", "error")),
        expected=event.get("expected") is True,
        raised=str(event.get("raised", "")),
        text=_judge.printable(str(event.get("text", ""))),
    )


def _no_account(result: ExecResult) -> AgentCompassError:
    if result.timed_out:
        return AgentCompassError(Code.GRADER_TIMEOUT, "the tests' warden did not end in time")
    if result.exit_code in (126, 127):
        return AgentCompassError(
            Code.GRADER_CRASHED, "python3 is missing in the sandbox: use an image that has it"
        )
    if result.out_of_memory:
        return AgentCompassError(
            Code.GRADER_CRASHED,
            "the memory limit ended the tests' warden: give the sandbox more (resources.memory_mb)",
        )
    reason = result.stderr.strip().rpartition("\n")[2][:300]
    return AgentCompassError(
        Code.GRADER_CRASHED, f"the tests' warden failed (exit {result.exit_code}): {reason}"
    )


@cache
def _source(name: str) -> str:
    return (Path(__file__).parent / f"{name}.py").read_text(encoding="utf-8")
