"""Commands in one Daytona sandbox: each is started once, whatever happens to the calls about it."""

import asyncio
import base64
import logging
import math
import re
import secrets
import shlex
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from agentcompass.components.contracts.errors import AgentCompassError, Code
from agentcompass.components.environments._daytona import calls
from agentcompass.components.environments._daytona.payload import Place, payload
from agentcompass.components.environments._daytona.scripts import RUN, SETUP

if TYPE_CHECKING:
    from daytona import AsyncSandbox

_log = logging.getLogger(__name__)

WAIT_SECONDS = 20
"""One call waits this long for a command inside; proxies on the way cut what is quiet longer."""
_INLINE_PAYLOAD_BYTES = 48_000
_INLINE_STDIN_BYTES = 24_000
_OVERDUE_SECONDS = 20.0
"""Over its time-out: then we end a command that should have been ended inside."""
_END_SECONDS = 15.0
_LOST_JOB_SECONDS = 20.0
"""How long answers that tell nothing of the command are borne."""

T = TypeVar("T")


@dataclass(frozen=True)
class Stream:
    head: bytes
    """All there was, or as much as the head's share."""
    tail: bytes = b""
    dropped: int = 0
    """Bytes between the two."""

    @property
    def content(self) -> bytes:
        return self.head + self.tail


@dataclass(frozen=True)
class Outcome:
    exit_code: int
    timed_out: bool
    refused: bool
    """The user that was asked for does not exist."""
    out_of_memory: bool
    stdout: Stream
    stderr: Stream


_NOTHING = Stream(b"")


class DaytonaCommands:
    def __init__(self, sandbox: "AsyncSandbox") -> None:
        self.sandbox = sandbox
        self.closing = False
        self.place = Place("", "/", "sh", "", root=False)
        self._read: list[str] = []
        """Commands whose files inside may go."""
        self._repeated = 0
        """Calls that were made again."""

    async def set_up(self, workdir: str | None, user: str | None) -> None:
        """Lay down the command runner, and make the workdir."""
        arguments = [secrets.token_hex(6), RUN, workdir or "", user or ""]
        answer = await self._execute(["/bin/sh", "-c", SETUP, "sh", *arguments], 60)
        found = re.search(r"agentcompass:setup:(.*):(\d+):(.*):(bash|sh):(.*):end", answer)
        if not found:
            raise AgentCompassError(
                Code.ENVIRONMENT_START,
                "the Daytona sandbox cannot be prepared (it needs sh and a writable /var/tmp or "
                f"/tmp): {calls.one_line(ValueError(answer or 'it answers nothing'))}",
            )
        here, uid, name, shell, directory = found.groups()
        self.place = Place(here, directory, shell, name, root=uid == "0")

    async def run(
        self,
        command: str | Sequence[str],
        *,
        limit_bytes: int,
        cwd: str | None = None,
        variables: Mapping[str, str] | None = None,
        user: str | None = None,
        stdin: bytes | None = None,
        stdin_file: str | None = None,
        timeout_seconds: float | None = None,
        merge: bool = False,
    ) -> Outcome:
        """`stdin_file`: of the sandbox, instead of `stdin`.

        Raises `environment.lost` when the sandbox is gone or does not answer any more.
        """
        command_id = secrets.token_hex(8)
        text = payload(
            self.place,
            command,
            cwd=cwd or self.place.workdir,
            variables=variables or {},
            user=user,
            stdin_file=stdin_file,
            command_id=command_id,
        )
        hundredths = 0 if timeout_seconds is None else max(1, math.ceil(timeout_seconds * 100))
        settings = [str(limit_bytes), str(hundredths), "1" if merge else "0"]
        try:
            inline = await self._delivered(command_id, text, stdin)
            calls_before = self._repeated
            outcome = await self._outcome(
                command_id, settings, inline, timeout_seconds, limit_bytes
            )
        except asyncio.CancelledError:
            if not self.closing:
                await self._end(command_id)
            raise
        # A starting call that we gave up may yet arrive: what stays of the command tells it.
        if self._repeated == calls_before:
            self._read.append(command_id)
        return outcome

    async def put(self, name: str, content: bytes | str, size: int) -> None:
        """Bytes, or the local file of that path, into the private folder."""
        from daytona import FileUpload

        target = f"{self.place.here}/{name}"
        await self.toolbox(
            lambda: self.sandbox.fs.upload_files([FileUpload(content, target)], 0),
            call_seconds=calls.transfer_seconds(size),
        )

    def forget(self, *names: str) -> None:
        """Files of the private folder that are needed no more."""
        self._read += names

    async def toolbox(
        self, work: Callable[[], Awaitable[T]], *, call_seconds: float | None = None
    ) -> T:
        """A call to the daemon inside; its failures told apart."""
        if self.closing:
            raise AgentCompassError(Code.ENVIRONMENT_LOST, "the sandbox is closed")
        try:
            return await calls.call(work, call_seconds=call_seconds)
        except AgentCompassError:
            raise
        except Exception as error:  # whatever the SDK and its transports raise
            raise await self.lost(error) from error

    async def answers(self) -> bool:
        if self.closing:
            return False
        try:
            await calls.call(self.sandbox.refresh_data, patience_seconds=5)
            await calls.call(self.sandbox.get_work_dir, patience_seconds=5)
        except Exception as error:  # whatever the SDK and its transports raise
            _log.debug("sandbox %s: %s", self.sandbox.id, error)
            return False
        return str(getattr(self.sandbox.state, "value", self.sandbox.state)) == "started"

    async def lost(self, error: BaseException) -> AgentCompassError:
        """Why a call failed for good: what became of the sandbox."""
        name = self.sandbox.id
        try:
            await calls.call(self.sandbox.refresh_data, patience_seconds=5)
            state = str(getattr(self.sandbox.state, "value", self.sandbox.state))
        except Exception as asked:  # only to tell more
            gone = calls.status_of(asked) == 404
            state = "gone" if gone else "out of reach"
        if state != "started":
            return AgentCompassError(Code.ENVIRONMENT_LOST, f"the sandbox {name} is {state}")
        return AgentCompassError(
            Code.ENVIRONMENT_LOST,
            f"the sandbox {name} does not do its work any more: {calls.one_line(error)}",
        )

    async def _delivered(self, command_id: str, text: bytes, stdin: bytes | None) -> list[str]:
        """What goes along with the starting call; large things are uploaded before it."""
        inline = []
        try:
            readable = text.decode("utf-8")
        except UnicodeDecodeError:
            readable = ""
        if len(text) <= _INLINE_PAYLOAD_BYTES and readable:
            inline.append(readable)
            if stdin and len(stdin) <= _INLINE_STDIN_BYTES:
                inline.append(base64.b64encode(stdin).decode())
                return inline
        else:
            await self.put(f"{command_id}.sh", text, len(text))
        if stdin:
            await self.put(f"{command_id}.in", stdin, len(stdin))
        return inline

    async def _outcome(
        self,
        command_id: str,
        settings: list[str],
        inline: list[str],
        timeout_seconds: float | None,
        limit_bytes: int,
    ) -> Outcome:
        started = time.monotonic()
        runner = ["/bin/sh", f"{self.place.here}/run"]
        gone, self._read = self._read[:100], self._read[100:]
        start = [*runner, "start", command_id, str(WAIT_SECONDS), " ".join(gone)]
        line = [*start, *settings, *inline]
        silent_since: float | None = None
        while True:
            answer = await self._execute(line, WAIT_SECONDS + 20)
            found = re.search(rf"agentcompass:{command_id}:(\w+)(?::([^:]*))?:end", answer)
            kind = found[1] if found else ""
            if found and kind == "reply":
                return _parsed(base64.b64decode(found[2] or ""), limit_bytes)
            if found and kind == "file":
                return _parsed(await self._fetched(command_id, int(found[2])), limit_bytes)
            if kind == "full":
                raise AgentCompassError(
                    Code.ENVIRONMENT_SETUP, "no space is left in the sandbox to run a command"
                )
            if kind == "running":
                silent_since = None
                line = [*runner, "wait", command_id, str(WAIT_SECONDS)]
                overdue = started + (timeout_seconds or 0) + _OVERDUE_SECONDS
                if timeout_seconds is not None and time.monotonic() > overdue:
                    await self._end(command_id)
                    return Outcome(-9, True, False, False, _NOTHING, _NOTHING)
                continue
            silent_since = silent_since or time.monotonic()
            if time.monotonic() - silent_since > _LOST_JOB_SECONDS:
                detail = calls.one_line(ValueError(answer or "it answers nothing"))
                raise await self.lost(ValueError(detail))
            line = [*start, *settings, *inline]
            await asyncio.sleep(0.5)

    async def _fetched(self, command_id: str, size: int) -> bytes:
        path = f"{self.place.here}/{command_id}/reply"

        async def fetch() -> bytes:
            content = await self.sandbox.fs.download_file(path, 0)
            if len(content) != size:
                raise ConnectionError("the reply arrived cut short")
            return content

        return await self.toolbox(fetch, call_seconds=calls.transfer_seconds(size))

    async def _end(self, command_id: str) -> None:
        """Kill a command and all it started, though we are being cancelled."""
        line = ["/bin/sh", f"{self.place.here}/run", "end", command_id]
        ending = asyncio.ensure_future(self._execute(line, _END_SECONDS))
        done, _ = await asyncio.wait([ending], timeout=_END_SECONDS)
        if not done:
            ending.cancel()
            _log.warning("a command in the sandbox %s could not be ended", self.sandbox.id)
        elif not ending.cancelled() and (error := ending.exception()):
            _log.warning("a command in %s could not be ended: %s", self.sandbox.id, error)

    async def _execute(self, argv: Sequence[str], seconds: float) -> str:
        """One call that is safe to repeat. The daemon reads a shell line."""
        line = shlex.join(argv)
        first = True

        async def execute() -> str:
            nonlocal first
            self._repeated += not first
            first = False
            response = await self.sandbox.process.exec(line, timeout=math.ceil(seconds))
            return str(response.result or "")

        return await self.toolbox(execute, call_seconds=seconds + calls.CALL_SECONDS)


def _parsed(reply: bytes, limit_bytes: int) -> Outcome:
    header, _, content = reply.partition(b"\n")
    code, timed_out, refused, starved, *sizes = (int(part) for part in header.split())
    streams = []
    for total, kept in (sizes[:2], sizes[2:]):
        data, content = content[:kept], content[kept:]
        half = limit_bytes // 2 if total > kept else kept
        streams.append(Stream(data[:half], data[half:], total - kept))
    return Outcome(code, bool(timed_out), bool(refused), bool(starved), *streams)
