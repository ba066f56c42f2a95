"""A scripted model and a sandbox of real processes, for tests of harnesses."""

import asyncio
import contextlib
import os
import signal
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from agentcompass.components.contracts.attempt import AttemptKey
from agentcompass.components.contracts.errors import AgentCompassError
from agentcompass.components.contracts.model import (
    FinishReason,
    Message,
    ModelEndpoint,
    ModelReply,
    ModelRequest,
    ToolCall,
)
from agentcompass.components.contracts.sandbox import (
    DEFAULT_CAPTURE,
    Capture,
    CaptureLimits,
    ExecResult,
)
from agentcompass.components.contracts.task import Task
from agentcompass.components.contracts.usage import Usage
from agentcompass.components.execution.log import TrajectoryLog

ONE_CALL = Usage(calls=1, input_tokens=10, output_tokens=5, cost_usd=0.25)
UNPRICED_CALL = Usage(calls=1, input_tokens=10, output_tokens=5, unpriced_calls=1)


def reply(
    content: str = "",
    *calls: ToolCall,
    finish: FinishReason | None = None,
    usage: Usage = ONE_CALL,
    **message: Any,
) -> ModelReply:
    return ModelReply(
        message=Message(role="assistant", content=content, tool_calls=calls, **message),
        finish_reason=finish or ("tool_calls" if calls else "stop"),
        usage=usage,
        model_name="fake-1",
    )


def call(tool: str, call_id: str = "c1", **arguments: Any) -> ToolCall:
    return ToolCall(id=call_id, name=tool, arguments=arguments)


def broken_call(tool: str, raw: str, call_id: str = "c1") -> ToolCall:
    return ToolCall(
        id=call_id, name=tool, arguments=None, raw_arguments=raw, problem="not a JSON object"
    )


def new_log(name: str = "test") -> TrajectoryLog:
    return TrajectoryLog(name, "1", "fake", AttemptKey(task_id="t", index=1))


def task(instruction: str = "Do it.", **fields: Any) -> Task:
    return Task(id="t", instruction=instruction, **fields)


Turn = ModelReply | AgentCompassError | Callable[[], Awaitable[ModelReply]]


class ScriptedModel:
    """Gives its turns in order; a turn may raise or wait. Remembers what it was asked."""

    name = "fake"
    model_seconds = waiting_seconds = pending_seconds = 0.0
    prices_known = True

    def __init__(self, *turns: Turn) -> None:
        self.turns = list(turns)
        self.requests: list[ModelRequest] = []
        self.usage = Usage()

    async def complete(self, request: ModelRequest) -> ModelReply:
        self.requests.append(request)
        turn = self.turns.pop(0)
        if isinstance(turn, AgentCompassError):
            raise turn
        answer = turn if isinstance(turn, ModelReply) else await turn()
        self.usage += answer.usage
        return answer

    def endpoint(self) -> ModelEndpoint | None:
        return None

    def results(self) -> dict[str | None, str]:
        """Tool results in the latest request, by call id."""
        messages = self.requests[-1].messages
        return {m.tool_call_id: m.content for m in messages if m.role == "tool"}


class ProcessSandbox:
    """Commands as real process groups in a folder."""

    def __init__(self, folder: Path) -> None:
        self.workdir = str(folder)
        self.commands: list[str] = []

    async def exec(
        self,
        command: str | Sequence[str],
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        user: str | None = None,
        stdin: bytes | None = None,
        timeout_seconds: float | None = None,
        output_limit_kb: int | None = None,
        merge_stderr: bool = False,
    ) -> ExecResult:
        self.commands.append(command if isinstance(command, str) else " ".join(command))
        argv = ["bash", "-c", command] if isinstance(command, str) else list(command)
        process = await asyncio.create_subprocess_exec(
            *argv,
            cwd=cwd or self.workdir,
            env={"PATH": os.environ["PATH"], **(env or {})},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT if merge_stderr else asyncio.subprocess.PIPE,
            start_new_session=True,
        )
        reading = asyncio.ensure_future(process.communicate())
        done, _ = await _wait_or_kill(process, reading, timeout_seconds)
        stdout, stderr = await reading
        return ExecResult(
            exit_code=process.returncode if done else None,
            stdout=stdout.decode(errors="replace"),
            stderr=(stderr or b"").decode(errors="replace"),
            timed_out=not done,
        )

    async def read_file(self, path: str, *, max_bytes: int | None = None) -> bytes:
        return (Path(self.workdir) / path).read_bytes()

    async def write_file(self, path: str, content: bytes, *, mode: int = 0o644) -> None:
        target = Path(self.workdir) / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)

    async def capture(self, path: str, limits: CaptureLimits = DEFAULT_CAPTURE) -> Capture:
        raise NotImplementedError


async def _wait_or_kill(
    process: asyncio.subprocess.Process,
    reading: "asyncio.Future[Any]",
    timeout_seconds: float | None,
) -> tuple[set[Any], set[Any]]:
    try:
        done, pending = await asyncio.wait({reading}, timeout=timeout_seconds)
    except asyncio.CancelledError:
        _kill(process)
        await reading
        raise
    if not done:
        _kill(process)
    return done, pending


def _kill(process: asyncio.subprocess.Process) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
