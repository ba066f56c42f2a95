"""Whether a command of a line did its work, as far as the line's output tells.

A line has one exit code, that of its last command: `git show X > f && pytest` exits 1 because a
test fails, and has written `f` all the same. The code decides about the last command only; about
others decide the lines in which a program says that it failed.
"""

import re

from agentcompass.components.analyzers._actions import Action
from agentcompass.components.analyzers._shell import Command

_FRAME = re.compile(
    r"(?im)^[\[<]?(?:(?:the command completed with )?exit(?:ed)?(?: with)?[ _]code:? -?\d+"
    r"|returncode>-?\d+</returncode|/?output|stdout:|stderr:|\(no output\))[.>\]]*$"
)
"""What harnesses write around an output."""
_ERROR = re.compile(
    r"(?i)^(?:(?:fatal|error|hint|warning): |<tool_use_error>|[\w./-]+: command not found$"
    r"|usage: |Use '--' to separate paths|'git <command> |curl: \(\d+\)|wget: )"
    r"|(?:No such file or directory|Permission denied|Operation not permitted|command not found"
    r"|Read-only file system|Not a directory|Is a directory|cannot access .*|cannot open .*)\W*$"
)
_TRACEBACK = re.compile(r"(?m)^Traceback \(most recent call last\):\n(?:[ \t].*\n?)*(?:\S.*)?")
_REFUSED = re.compile(
    r"(?i)no such file|permission denied|not permitted|cannot (?:access|open|create|stat)"
    r"|read-only file system|not a directory|does not exist|did not match any"
)
_CD_FAILED = re.compile(r"\bcd: .*(?:No such file|Not a directory|Permission denied)|can't cd to")
_ANSWERS_ONE = frozenset(["diff", "cmp", "grep", "rg", "find", "cat", "head", "tail", "ls"])
"""Programs whose exit code 1 may stand beside a true output."""
_LONGEST = 200_000
MOST_LOOKS = 50
"""Of one line: more are not asked one by one."""


def left(action: Action) -> str:
    """What it was shown, without the harness's words, complaints, and what the line echoes."""
    text = _FRAME.sub("", _TRACEBACK.sub("", action.output[:_LONGEST]))
    echoed = {
        " ".join(word for word in command.words if not re.fullmatch(r"-[neE]+", word))
        for command in action.commands
        if command.program == "echo" and not command.outputs
    }
    lines = (line.strip() for line in text.splitlines())
    return "\n".join(
        line for line in lines if line and line not in echoed and not _ERROR.search(line[:1_000])
    )


def failed(action: Action, command: Command | None = None, path: str = "", alike: int = 1) -> bool:
    """The command did not do what it was there for; `path` is what it was to read or write.

    `alike`: so many commands of its kind stand on the line.
    """
    if not action.line:
        return action.failed
    lines = action.output[:_LONGEST].splitlines()
    if path and any(path in line and _REFUSED.search(line) for line in lines):
        return True
    if "&&" in action.line and _CD_FAILED.search(action.output[:_LONGEST]):
        return True
    if command is None:
        return False
    if command.program == "git" and sum(line.startswith("fatal: ") for line in lines) >= alike:
        return True
    if command.program == "curl" and sum(line.startswith("curl: (") for line in lines) >= alike:
        return True
    return bool(action.exit_code) and _is_last(action, command) and not _answers(action, command)


def _is_last(action: Action, command: Command) -> bool:
    """Of what stands in `$(…)`, nobody knows."""
    if "$(" in action.line or "`" in action.line or not action.commands:
        return len(action.commands) == 1
    last = action.commands[-1]
    return command.argv == last.argv and not command.into


def _answers(action: Action, command: Command) -> bool:
    """Code 1 of a program that says so of a difference, or of one path among several."""
    says_so = command.program in _ANSWERS_ONE or (
        command.program == "git" and ("diff" in command.words or "CONFLICT" in action.output)
    )
    return says_so and action.exit_code == 1 and bool(left(action))
