"""One command in a container: started, followed to its end, killed with what it started."""

import asyncio
import contextlib
import secrets
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from agentcompass.components.contracts.errors import AgentCompassError, Code
from agentcompass.components.contracts.waiting import to_its_end
from agentcompass.components.environments._clipped_output import ClippedOutput
from agentcompass.components.environments._docker.engine import Engine, insistently
from agentcompass.components.environments._docker.errors import explained
from agentcompass.components.environments._docker.marks import MarkedOutput
from agentcompass.components.environments._docker.scripts import (
    COMMAND,
    KILL,
    LONG_LINE,
    TELL_STOPPED,
)
from agentcompass.components.environments._docker.stream import Sink, Stream, Taken

if TYPE_CHECKING:
    from docker import DockerClient

MARKER = "AGENTCOMPASS_COMMAND"
"""The variable by which a command's processes are found; its value is the command's own."""
ROOT = ("", "0", "root", "0:0", "root:root")
"""Users of a container that need no telling."""
_DEAD_SECONDS = 5.0
"""Waited for a killed command's output to end."""
_START_SECONDS = 90.0
"""What a busy engine may take to start one before the sandbox counts as lost."""
_KILL_SECONDS = 20.0
"""What killing may take on a busy engine before the sandbox counts as lost."""
_ARGUMENT_BYTES = 100_000
"""The kernel takes 128 KB in one argument, and 2 MB in all with the environment."""


@dataclass(frozen=True)
class Start:
    argv: Sequence[str]
    user: str
    """Empty: the image's own."""
    variables: Mapping[str, str]


@dataclass(frozen=True)
class Ended:
    exit_code: int | None
    """None: it was out of time."""
    oom_kills: tuple[int, int] | None = None
    """Before and after; None: it was ended before it could tell."""


class Outputs:
    """Both streams of a command in bounded memory; merged they are one."""

    def __init__(self, limit_bytes: int, merged: bool) -> None:
        self.merged = merged
        self.stdout = ClippedOutput(limit_bytes)
        self.stderr = self.stdout if merged else ClippedOutput(limit_bytes)


async def run(
    engine: Engine,
    container: str,
    command: str | Sequence[str],
    outputs: Outputs,
    *,
    directory: str,
    user: str,
    variables: Mapping[str, str],
    stdin: bytes,
    timeout_seconds: float | None,
) -> Ended:
    """Raises AgentCompassError(environment.lost) when the container or the engine goes away."""
    deadline = None if timeout_seconds is None else time.monotonic() + timeout_seconds
    mark, followed = secrets.token_hex(8), _Followed(outputs)
    start = Start(
        ["/bin/sh", "-c", COMMAND, "sh", directory, _kind(command, outputs), *_words(command)],
        user,
        {**variables, MARKER: mark},
    )
    taken, exec_id = await _started(engine, container, start)
    # It waits for its first line: until here nothing of the command has run.
    stream = await Stream.over(taken, followed.stdout.add, followed.stderr.add)
    try:
        size = "" if taken.half_closes else str(len(stdin))
        stream.write(f"{followed.nonce} {size}\n".encode() + stdin)
        if taken.half_closes:
            stream.write_eof()
        left = None if deadline is None else max(0.0, deadline - time.monotonic())
        ends: list[asyncio.Future[Any]] = [followed.ended, stream.ended]
        await asyncio.wait(ends, timeout=left, return_when=asyncio.FIRST_COMPLETED)
        out_of_time = not followed.ended.done() and not stream.ended.done()
        if out_of_time:
            await kill(engine, container, user, mark)
            await asyncio.wait([stream.ended], timeout=_DEAD_SECONDS)
    except asyncio.CancelledError:
        with contextlib.suppress(AgentCompassError):  # it is gone: so is the command
            await to_its_end(kill(engine, container, user, mark))
        raise
    finally:
        stream.close()
        followed.finish()
    if out_of_time:
        return Ended(None)
    if followed.ended.done():
        code, before, after = (int(word) for word in followed.ended.result())
        return Ended(code, (before, after))
    return Ended(await exit_code(engine, exec_id))  # the shell around it was killed as well


async def plain(
    engine: Engine,
    container: str,
    start: Start,
    stdout: Sink,
    stderr: Sink,
    stdin: bytes = b"",
) -> int:
    """A script of our own to its end, without mark or deadline; its exit code. It must know the
    size of its input. Cancelled, it goes on without its connection, at most to the close."""
    taken, exec_id = await _started(engine, container, start)
    stream = await Stream.over(taken, stdout, stderr)
    try:
        stream.write(stdin)
        await stream.ended
    finally:
        stream.close()
    return await exit_code(engine, exec_id)


async def kill(engine: Engine, container: str, user: str, mark: str) -> None:
    """Everything that carries the mark, and its descendants.

    First as who ran it: root of a container may not look into other users' processes, only kill
    them, and not every engine can lend it that right (`privileged`).
    """
    found = " "
    try:
        async with asyncio.timeout(_KILL_SECONDS):
            for who in ("0",) if user in ROOT else (user, "0"):
                told = bytearray()
                script = KILL if who == "0" else TELL_STOPPED
                start = Start(["/bin/sh", "-c", script, "sh", f"{MARKER}={mark}", found], who, {})
                await plain(engine, container, start, told.extend, bytearray().extend)
                found = told.decode("ascii", "replace").rstrip("\n") or found
    except TimeoutError as error:
        raise AgentCompassError(
            Code.ENVIRONMENT_LOST, "a command could not be killed: the engine does not answer"
        ) from error


async def kill_all(engine: Engine, container: str) -> None:
    """All that runs in a container but its first process."""
    start = Start(["/bin/sh", "-c", "kill -9 -1"], "0", {})
    said = bytearray()
    await plain(engine, container, start, said.extend, said.extend)


async def exit_code(engine: Engine, exec_id: str) -> int:
    """Once its output has ended; the engine may take a moment to notice that it has."""
    for pause in (0.02, 0.1, 0.5, 2.0, 0.0):
        try:
            told = await engine.insist(lambda client: client.api.exec_inspect(exec_id))
        except Exception as error:  # the SDK's and its transport's: judged by `explained`
            raise lost(error) from error
        if told.get("ExitCode") is not None:
            return int(told["ExitCode"])
        await asyncio.sleep(pause)
    raise AgentCompassError(
        Code.ENVIRONMENT_LOST, "the connection to a command in the sandbox was lost"
    )


def lost(error: BaseException) -> AgentCompassError:
    return explained(error, "a command in the sandbox", Code.ENVIRONMENT_LOST)


class _Followed:
    """What comes of a command: `ended` holds its exit code and counts once both streams told."""

    def __init__(self, outputs: Outputs) -> None:
        self.nonce = secrets.token_hex(16)
        self.ended: asyncio.Future[list[str]] = asyncio.get_running_loop().create_future()
        self._marks = 0
        self.stdout = MarkedOutput(self.nonce, outputs.stdout.add, self._on_mark)
        self.stderr = (
            self.stdout
            if outputs.merged
            else MarkedOutput(self.nonce, outputs.stderr.add, self._on_mark)
        )

    def finish(self) -> None:
        self.stdout.finish()
        self.stderr.finish()

    def _on_mark(self, words: list[str]) -> None:
        self._marks += 1
        if self._marks == 2 and not self.ended.done():
            self.ended.set_result(words)


def _kind(command: str | Sequence[str], outputs: Outputs) -> str:
    shape = "line" if isinstance(command, str) else "argv"
    return f"{shape} {'merged' if outputs.merged else 'apart'}"


def _words(command: str | Sequence[str]) -> list[str]:
    if not isinstance(command, str):
        return list(command)
    if len(command) * 4 <= _ARGUMENT_BYTES or len(command.encode()) <= _ARGUMENT_BYTES:
        return ["-c", command]
    step = _ARGUMENT_BYTES // 4  # a character has up to four bytes
    pieces = [command[at : at + step] for at in range(0, len(command), step)]
    return ["-c", LONG_LINE, "sh", *pieces]


async def _started(engine: Engine, container: str, start: Start) -> tuple[Taken, str]:
    """Raises AgentCompassError(environment.lost)."""
    future = engine.submit(_start, container, start)
    try:
        async with asyncio.timeout(_START_SECONDS):
            return await asyncio.wrap_future(future)
    except asyncio.CancelledError:
        future.add_done_callback(_dropped)
        raise
    except Exception as error:  # the SDK's and its transport's: judged by `explained`
        if isinstance(error, TimeoutError):
            future.add_done_callback(_dropped)
        raise lost(error) from error


def _start(client: "DockerClient", container: str, start: Start) -> tuple[Taken, str]:
    def once() -> tuple[Taken, str]:
        exec_id = client.api.exec_create(
            container,
            list(start.argv),
            stdin=True,
            environment=[f"{name}={value}" for name, value in start.variables.items()],
            workdir="/",  # the image's own may have been removed by the agent
            user=start.user,
        )["Id"]
        return Taken(client.api.exec_start(exec_id, socket=True)), exec_id

    return insistently(once)


def _dropped(future: "Future[tuple[Taken, str]]") -> None:
    """Nobody waits for it any more: without its first line it ends by itself."""
    if future.exception() is None:
        future.result()[0].close()
