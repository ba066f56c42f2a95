"""The tools of `tool_agent`: what the model is told of them, and what a call does.

Whatever the model sends, it gets a result: a call that cannot be done is answered with an
error, and no argument is ever made up.
"""

from dataclasses import dataclass
from typing import Any

from agentcompass.components.contracts.model import ToolCall, ToolDefinition
from agentcompass.components.contracts.sandbox import Environment, ExecResult
from agentcompass.components.harnesses._text import shorten

READ_LIMIT_BYTES = 10 * 1024 * 1024


def _tool(
    name: str, description: str, required: tuple[str, ...], **properties: dict[str, Any]
) -> ToolDefinition:
    return ToolDefinition(
        name=name,
        description=description,
        parameters={
            "type": "object",
            "properties": properties,
            "required": list(required),
            "additionalProperties": False,
        },
    )


TOOLS: tuple[ToolDefinition, ...] = (
    _tool(
        "shell",
        "Run a shell command in the working directory. Its exit code and output are returned.",
        ("command",),
        command={"type": "string", "description": "The command line."},
        timeout_seconds={"type": "number", "description": "Kill it after this many seconds."},
    ),
    _tool(
        "read_file",
        "Read a text file.",
        ("path",),
        path={"type": "string", "description": "Absolute, or relative to the working directory."},
        first_line={"type": "integer", "description": "Where to start, from 1. Default: 1."},
        line_count={"type": "integer", "description": "How many lines. Default: all."},
    ),
    _tool(
        "write_file",
        "Write a whole text file; missing folders are made, an existing file is replaced.",
        ("path", "content"),
        path={"type": "string", "description": "Absolute, or relative to the working directory."},
        content={"type": "string", "description": "The complete new content."},
    ),
    _tool(
        "submit",
        "End the task. Nothing can be done afterwards.",
        (),
        answer={
            "type": "string",
            "description": "The final answer, if the task asks for one, in the form it asks for.",
        },
    ),
)
_BY_NAME = {tool.name: tool for tool in TOOLS}
_PYTHON_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
}


@dataclass(frozen=True)
class Submitted:
    """The agent called `submit`."""

    answer: str | None


class Toolbox:
    """Runs calls in one sandbox."""

    def __init__(
        self,
        env: Environment,
        *,
        timeout_seconds: float,
        limit_chars: int,
    ) -> None:
        self._env = env
        self._timeout_seconds = timeout_seconds
        self._limit_chars = limit_chars

    async def call(self, call: ToolCall, *, cut_off: bool) -> str | Submitted:
        """The result as the model is shown it. `cut_off`: the reply ended at its token limit.

        Raises only what the sandbox raises when it is gone.
        """
        if (problem := _problem(call)) is not None:
            cause = " The reply was cut off at the token limit; send less." if cut_off else ""
            return f"error: {problem}{cause} Nothing was run."
        # A null for an optional argument says "not given": many models fill in every field.
        arguments = {k: v for k, v in (call.arguments or {}).items() if v is not None}
        try:
            match call.name:
                case "submit":
                    return Submitted(arguments.get("answer"))
                case "read_file":
                    return await self._read_file(**arguments)
                case "write_file":
                    return await self._write_file(**arguments)
                case _:
                    return await self._shell(**arguments)
        except (OSError, ValueError) as error:  # what the sandbox says of this path or command
            return shorten(f"error: {_reason(error)}", self._limit_chars)

    async def _shell(self, command: str, timeout_seconds: float | None = None) -> str:
        limit = self._timeout_seconds
        allowed = limit if timeout_seconds is None else min(timeout_seconds, limit)
        result = await self._env.exec(command, timeout_seconds=allowed)
        return _shown(result, allowed, self._limit_chars)

    async def _read_file(
        self, path: str, first_line: int = 1, line_count: int | None = None
    ) -> str:
        content = await self._env.read_file(path, max_bytes=READ_LIMIT_BYTES)
        text = content.decode("utf-8", errors="replace")
        if first_line > 1 or line_count is not None:
            lines = text.split("\n")
            if first_line > len(lines):
                return f"error: the file has only {len(lines)} lines"
            end = None if line_count is None else first_line - 1 + line_count
            text = "\n".join(lines[first_line - 1 : end])
        return shorten(text, self._limit_chars) or "(empty)"

    async def _write_file(self, path: str, content: str) -> str:
        data = content.encode("utf-8")
        await self._env.write_file(path, data)
        return f"wrote {len(data)} bytes to {path}"


def _problem(call: ToolCall) -> str | None:
    """Why this call cannot be done as sent."""
    if call.arguments is None:
        return f"the arguments are not a JSON object ({shorten(call.problem or '', 300)})."
    tool = _BY_NAME.get(call.name)
    if tool is None:
        return f"there is no tool {shorten(call.name, 100)!r}; the tools are {', '.join(_BY_NAME)}."
    properties: dict[str, dict[str, Any]] = tool.parameters["properties"]
    for name in tool.parameters["required"]:
        if name not in call.arguments:
            return f"{call.name} needs the argument {name!r}."
    for name, value in call.arguments.items():
        if name not in properties:
            known = ", ".join(properties)
            return f"{call.name} has no argument {shorten(name, 100)!r}; it takes {known}."
        optional = name not in tool.parameters["required"]
        if value is None and optional:
            continue
        if (problem := _value_problem(name, value, properties[name]["type"])) is not None:
            return problem
    return None


def _value_problem(name: str, value: object, kind: str) -> str | None:
    # In Python True is a number; in JSON it is not.
    if isinstance(value, bool) or not isinstance(value, _PYTHON_TYPES[kind]):
        return f"{name!r} must be a JSON {kind}, not {type(value).__name__}."
    if isinstance(value, int | float) and not 0 < value < float("inf"):
        return f"{name!r} must be above 0."
    if isinstance(value, str) and name in ("command", "path") and "\0" in value:
        return f"{name!r} holds a NUL character."
    if isinstance(value, str) and name != "answer" and not _encodable(value):
        return f"{name!r} holds half a surrogate pair, which is not valid Unicode."
    return None


def _encodable(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _shown(result: ExecResult, timeout_seconds: float, limit_chars: int) -> str:
    """Exit code first, then both streams; a stream that fits leaves its room to the other."""
    stdout, stderr = result.stdout, result.stderr
    if len(stdout) + len(stderr) > limit_chars:
        half = limit_chars // 2
        room = max(half, limit_chars - len(stderr))
        stdout = shorten(stdout, room, dropped_bytes=result.stdout_dropped_bytes)
        room = max(half, limit_chars - len(result.stdout))
        stderr = shorten(stderr, room, dropped_bytes=result.stderr_dropped_bytes)
    if result.timed_out:
        ending = f"timed out after {timeout_seconds:g} s and was killed"
    elif result.exit_code is not None and result.exit_code < 0:
        ending = f"killed by signal {-result.exit_code}"
    else:
        ending = f"exit code {result.exit_code}"
    parts = [ending]
    if stdout:
        parts.append(f"stdout:\n{stdout}")
    if stderr:
        parts.append(f"stderr:\n{stderr}")
    if not (stdout or stderr):
        parts.append("(no output)")
    return "\n".join(parts)


def _reason(error: Exception) -> str:
    text = " ".join(str(error).split())
    name = type(error).__name__
    return f"{name}: {text}" if text else name
