"""What an agent did, read alike from every harness's trajectory.

Harnesses name their tools and arguments differently; what an argument is called says what it is:

| | names seen |
|---|---|
| a command line | `command`, `cmd` (text or a list of words), `keystrokes`, `script` |
| a path | `path`, `file_path`, `filePath`, `target_file`, … |
| new content | `content`, `file_text`, `new_string`, `new_str`, `patch`, `edits[]`, … |
| what it replaces | `old_string`, `old_str`, `oldString` |
| the network | `url`, `urls`, or a tool whose name says web, fetch or browse |

An agent that calls no tools but is shown results wrote its commands in fenced blocks of its text.
"""

import json
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

from agentcompass.components.analyzers._shell import Command, commands
from agentcompass.components.contracts.analysis import FinishedAttempt
from agentcompass.components.contracts.trajectory import AtifToolCall, Step

_COMMAND = ("command", "cmd", "keystrokes", "script", "commands")
_PATH = (
    "path", "file_path", "filePath", "filepath", "absolute_path", "target_file", "file",
    "filename", "notebook_path", "abs_path",
)  # fmt: skip
_CONTENT = (
    "content", "contents", "file_text", "new_string", "new_str", "newString", "new_source", "patch",
    "diff", "input", "insert_text", "insert_line_text", "code_edit", "text", "replacement",
)  # fmt: skip
_OLD = ("old_string", "old_str", "oldString", "search")
_INSERTS = ("insert_line", "insert_text", "insert_line_text", "code_edit", "new_source")
_URL = ("url", "urls", "uri")
_EDITOR_VERBS = frozenset(["view", "create", "str_replace", "insert", "undo_edit", "read", "write"])
_READ_TOOL = re.compile(r"(?i)read|view|open|cat|grep|glob|search|list|^ls$|find")
_FENCE = re.compile(r"```(?:bash|sh|shell|console|mswea_bash_command)[ \t]*\n(.*?)```", re.DOTALL)
_PATCH_FILE = re.compile(
    r"^(?:\*\*\* (?:Add|Update|Delete) File: |\+\+\+ (?:b/)?)(\S+)", re.MULTILINE
)
_NEW_FILE = re.compile(
    r"^(?:\*\*\* Add File: |--- /dev/null[^\n]*\n\+\+\+ (?:b/)?)(\S+)", re.MULTILINE
)


@dataclass(frozen=True)
class Written:
    """Text an agent put into a file."""

    path: str
    text: str
    old: str = ""
    """What it stands in place of, where the agent said so."""
    partial: bool = False
    """It goes into a file that keeps the rest of its content."""


@dataclass(frozen=True, eq=False)
class Action:
    """One tool call and its result, or one command of an agent without tools."""

    step: int
    tool: str
    arguments: Mapping[str, Any]
    line: str
    """The command line; "" for other tools."""
    output: str
    """What the agent was shown, freed of JSON around it."""
    exit_code: int | None
    path: str = ""
    """Of the file a file tool names."""
    is_read: bool = False
    written: tuple[Written, ...] = ()
    """By a file tool; what commands write is in `commands`."""
    urls: tuple[str, ...] = ()

    @cached_property
    def commands(self) -> tuple[Command, ...]:
        return commands(self.line) if self.line else ()

    @property
    def failed(self) -> bool:
        """As a whole; of a command line that is its last command (see `_outcomes`)."""
        return bool(self.exit_code) or bool(_ERROR.match(self.output.lstrip()))


_ERROR = re.compile(r"(?i)(?:<tool_use_error>|error\b|fatal:|traceback)")


@lru_cache(maxsize=2)  # every analyzer asks for the attempt at hand
def actions(attempt: FinishedAttempt) -> tuple[Action, ...]:
    return tuple(action for step in attempt.steps for action in _of_step(step))


def _of_step(step: Step) -> Iterator[Action]:
    if step.source != "agent":
        return
    results = step.observation.results if step.observation else ()
    if step.tool_calls:
        unnamed = [r.content or "" for r in results if r.source_call_id is None]
        for call in step.tool_calls:
            own = [r.content or "" for r in results if r.source_call_id == call.tool_call_id]
            if not own and unnamed:
                own = [unnamed.pop(0)] if len(step.tool_calls) > 1 else unnamed
            yield _of_call(step.step_id, call, "\n".join(own))
    elif results and (blocks := _FENCE.findall(step.message)):
        shown = "\n".join(r.content or "" for r in results)
        line = "\n".join(block.strip() for block in blocks)
        output, code = _unpacked(shown)
        yield Action(step.step_id, "bash", {"command": line}, line, output, code)


def _of_call(step: int, call: AtifToolCall, shown: str) -> Action:
    output, code = _unpacked(shown)
    arguments = call.arguments
    path = _first_text(arguments, _PATH)
    line = _line(arguments, path)
    written = () if line else tuple(_written(arguments, path))
    is_read = bool(path) and not written and not line
    urls = tuple(_urls(call))
    if not line and not written and not path and _READ_TOOL.search(call.function_name):
        is_read = True
    return Action(
        step, call.function_name, arguments, line, output, code, path, is_read, written, urls
    )


def _line(arguments: Mapping[str, Any], path: str) -> str:
    for name in _COMMAND:
        value = arguments.get(name)
        if isinstance(value, list | tuple) and value and all(isinstance(v, str) for v in value):
            if len(value) == 3 and re.fullmatch(r"-\w*c", value[1]):
                return str(value[2])
            return shlex.join(value)
        if isinstance(value, str) and value.strip():
            if value in _EDITOR_VERBS and (path or "path" in arguments):
                return ""
            return value
    return ""


def _written(arguments: Mapping[str, Any], path: str) -> Iterator[Written]:
    text = _first_text(arguments, _CONTENT)
    if not path and text.startswith(("*** Begin Patch", "diff --git", "--- ")):
        yield from of_patch(text)
    elif path and (text or _has(arguments, _CONTENT)):
        inserted = arguments.get("command") == "insert" or any(n in arguments for n in _INSERTS)
        yield Written(path, text, _first_text(arguments, _OLD), inserted)
    edits = arguments.get("edits")
    for edit in edits if isinstance(edits, list | tuple) else ():
        if isinstance(edit, Mapping):
            old = _first_text(edit, _OLD)
            yield Written(path, _first_text(edit, _CONTENT), old, partial=not old)


def of_patch(text: str) -> Iterator[Written]:
    """The added and removed lines of each file of a patch."""
    parts, new = re.split(_PATCH_FILE, text), set(_NEW_FILE.findall(text))
    for path, body in zip(parts[1::2], parts[2::2], strict=False):
        lines = body.splitlines()
        added = [line[1:] for line in lines if line.startswith("+")]
        removed = [line[1:] for line in lines if line.startswith("-")]
        yield Written(path, "\n".join(added), "\n".join(removed), path not in new)


def _urls(call: AtifToolCall) -> Iterator[str]:
    for name in _URL:
        value = call.arguments.get(name)
        yield from [value] if isinstance(value, str) else ()
        yield from (v for v in value if isinstance(v, str)) if isinstance(value, list) else ()
    if is_web_tool(call.function_name):
        for value in call.arguments.values():
            yield from re.findall(r"https?://[^\s\"'<>]+", value) if isinstance(value, str) else ()


def is_web_tool(name: str) -> bool:
    return re.search(r"(?i)web|fetch|brows|http|internet|google|bing", name) is not None


def _first_text(arguments: Mapping[str, Any], names: tuple[str, ...]) -> str:
    return next((v for name in names if isinstance(v := arguments.get(name), str) and v), "")


def _has(arguments: Mapping[str, Any], names: tuple[str, ...]) -> bool:
    return any(isinstance(arguments.get(name), str) for name in names)


_OUTPUT = ("output", "output_head", "output_tail", "stdout", "stderr", "content", "exception_info")
_CODE = ("returncode", "exit_code", "exitCode", "return_code")
_CODE_HEAD = re.compile(r"(?i)\W*(?:\w+ ){0,4}exit(?:ed)?[ _]?(?:with )?code[:= ]*(-?\d{1,10})")
_CODE_TAIL = re.compile(r"(?i)exit code[:= ]*(-?\d{1,10})\W*$|<returncode>(-?\d{1,10})<")


def _unpacked(shown: str) -> tuple[str, int | None]:
    """The output itself and the exit code, from the shapes harnesses show them in."""
    if shown.lstrip().startswith("{"):
        try:
            document = json.loads(shown)
        except (ValueError, RecursionError):
            document = None
        if isinstance(document, dict):
            texts = [document[k] for k in _OUTPUT if isinstance(document.get(k), str)]
            meta = document.get("metadata")
            codes = {**(meta if isinstance(meta, dict) else {}), **document}
            code = next((codes[k] for k in _CODE if isinstance(codes.get(k), int)), None)
            if texts or code is not None:
                return "\n".join(texts), code
    head, tail = _CODE_HEAD.match(shown[:200]), _CODE_TAIL.search(shown[-200:])
    if head is None and tail is None and shown.startswith("<returncode>"):
        tail = _CODE_TAIL.search(shown[:200])
    digits = head[1] if head else (tail[1] or tail[2]) if tail else None
    return shown, int(digits) if digits is not None else None
