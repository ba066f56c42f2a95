"""Commands in a Modal sandbox: started, awaited, and ended as whole trees.

The SDK's own time-out of a command answers −1 with part of the output and no error, and ends
the first process only. So deadlines are ours: a command bears a mark in its environment, and
past its time a script inside kills all that bear it with all their descendants.
"""

import asyncio
import secrets
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from agentcompass.components.contracts.errors import AgentCompassError
from agentcompass.components.environments._modal import scripts
from agentcompass.components.environments._modal.errors import (
    CALL_SECONDS,
    Trouble,
    lost,
    one_line,
    persistently,
    trouble,
    within,
)
from agentcompass.components.environments._modal.streams import OutputReader, Sink, feed

if TYPE_CHECKING:
    import modal

_DEAD_SECONDS = 2.0
"""Waited to hear of the end of a command after it was killed."""
_SILENT_SECONDS = 30.0
"""Without a byte of the rest of an ended command's output: it will not come."""
_UNMARKED_SECONDS = 10.0
_KILL_SECONDS = 20.0


class Launch(NamedTuple):
    argv: Sequence[str]
    variables: Mapping[str, str] = {}
    directory: str = ""
    stdin: "bytes | AsyncIterator[bytes] | None" = None
    merge: bool = False
    staged: str = ""
    """A file inside that holds a line too long for an argument, opened as descriptor 9."""


class Ended(NamedTuple):
    code: int | None
    """None: out of time, and killed."""
    out_of_memory: bool = False


class Commands:
    """Runs commands in one sandbox. Every method raises environment.lost when it is gone."""

    def __init__(self, sandbox: "modal.Sandbox") -> None:
        self.sandbox = sandbox
        self._ended: asyncio.Task[None] = asyncio.create_task(self._until_ended())
        self._closed = False

    async def run(
        self,
        launch: Launch,
        stdout: Sink,
        stderr: Sink | None = None,
        timeout_seconds: float | None = None,
    ) -> Ended:
        """`stderr` unset: dropped."""
        self.check_open()
        mark = secrets.token_hex(12)
        end = f"\x01{mark}"
        options = ["1" if launch.stdin is not None else "", "1" if launch.merge else ""]
        words = [*options, launch.staged, end, *launch.argv]
        try:
            process = await self._started(
                ["/bin/sh", "-c", scripts.LAUNCH, "sh", launch.directory, *words],
                {**launch.variables, scripts.MARK: mark},
                errors=not launch.merge and stderr is not None,
            )
        except asyncio.CancelledError:  # it may have started all the same
            await self._killed(mark, None)
            raise
        started = time.monotonic()
        readers = [OutputReader(process.stdout, end.encode(), stdout)]
        if not launch.merge and stderr is not None:
            readers.append(OutputReader(process.stderr, end.encode(), stderr))
        exited = asyncio.create_task(process.wait.aio())
        reading = [asyncio.create_task(reader.run()) for reader in readers]
        feeding = [asyncio.create_task(feed(process, launch.stdin))] if options[0] else []
        try:
            left = None
            if timeout_seconds is not None:
                left = started + timeout_seconds - time.monotonic()
            if await self._until_exit(exited, [*reading, *feeding], left):
                await self._rest(readers, reading, exited)
                killed = any(reader.out_of_memory for reader in readers)
                return Ended(await self._exit_code(exited), killed)
        except BaseException as error:
            if not exited.done():
                await self._killed(mark, exited)
            self._raise(error)
        else:
            problem = await self._killed(mark, exited)
            await asyncio.wait(reading, timeout=0.5)
            if problem is not None:
                raise problem
            return Ended(None)
        finally:
            await _stopped([exited, *reading, *feeding])
            for reader in readers:
                reader.flush()

    async def short(
        self,
        script: str,
        *arguments: str,
        stdin: "bytes | AsyncIterator[bytes] | None" = None,
        sink: Sink | None = None,
        timeout_seconds: float | None = CALL_SECONDS,
    ) -> tuple[int, bytes, str]:
        """One of our own scripts: exit code, stdout (unless there is a sink), stderr."""
        output, errors = bytearray(), bytearray()

        def keep_errors(data: bytes) -> None:
            errors.extend(data[: 4096 - len(errors)])

        argv = ["/bin/sh", "-c", script, "sh", *arguments]
        code, _ = await self.run(
            Launch(argv, stdin=stdin), sink or output.extend, keep_errors, timeout_seconds
        )
        if code is None:
            raise lost(f"the sandbox took more than {timeout_seconds:g} s for a file")
        return code, bytes(output), errors.decode(errors="replace").strip()

    def check_open(self) -> None:
        if self._closed or self._ended.done():
            raise lost("the sandbox is gone")

    def close(self) -> None:
        """Nothing runs here any more; what still waits for a command hears that it is lost."""
        self._closed = True
        self._ended.cancel()

    async def _started(
        self, argv: Sequence[str], variables: Mapping[str, str], *, errors: bool
    ) -> Any:
        from modal.stream_type import StreamType

        for again in (0.5, 1.0, 2.0, 4.0, 8.0, None):
            try:
                start = self.sandbox.exec.aio(
                    *argv,
                    env=dict(variables),
                    text=False,
                    stderr=StreamType.PIPE if errors else StreamType.DEVNULL,
                )
                return await self._or_gone(within(CALL_SECONDS, start))
            except Exception as error:  # sorted by `trouble`; what it does not know rises
                # Only what surely did not start is started again: a command may run once.
                if trouble(error) is not Trouble.LIMITED or again is None:
                    self._raise(error)
                await asyncio.sleep(again)
        raise AssertionError

    async def _or_gone(self, work: Any) -> Any:
        task = asyncio.ensure_future(work)
        try:
            await asyncio.wait({task, self._ended}, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            task.cancel()
            raise
        if not task.done():
            await _stopped([task])
            raise lost("the sandbox went away")
        return task.result()

    async def _until_exit(
        self, exited: "asyncio.Task[int]", others: Sequence["asyncio.Task[Any]"], left: float | None
    ) -> bool:
        """False: out of time."""
        deadline = None if left is None else time.monotonic() + left
        watched: set[asyncio.Task[Any]] = {exited, self._ended, *others}
        while not exited.done():
            rest = None if deadline is None else max(0.0, deadline - time.monotonic())
            done, watched = await asyncio.wait(
                watched, timeout=rest, return_when=asyncio.FIRST_COMPLETED
            )
            if not done and not exited.done():
                return False
            if self._ended in done or self._ended.done():
                raise lost("the sandbox went away while a command ran in it")
            for task in done:
                task.result()  # a sink's or a stream's error ends the command
        return True

    async def _rest(
        self,
        readers: Sequence[OutputReader],
        reading: Sequence["asyncio.Task[None]"],
        exited: "asyncio.Task[int]",
    ) -> None:
        """Until all of an ended command's own output is in.

        A launcher that was killed left no end mark: then what the command left in the
        background may write for ever.
        """
        killed = exited.result() < 0 or exited.result() > 128
        while True:
            before = sum(reader.chunks for reader in readers)
            patience = _UNMARKED_SECONDS if killed else _SILENT_SECONDS
            _, pending = await asyncio.wait(reading, timeout=patience)
            for task in reading:
                if task.done():
                    task.result()
            if not pending or killed or sum(reader.chunks for reader in readers) == before:
                return

    async def _exit_code(self, exited: "asyncio.Task[int]") -> int:
        code = exited.result()
        if code in (-1, 137, 143):  # so does a command end whose sandbox ends
            over = await persistently(lambda: self.sandbox.poll.aio(), seconds=10, in_all=20)
            if over is not None:
                raise lost("the sandbox went away while a command ran in it")
        return code

    async def _killed(
        self, mark: str, exited: "asyncio.Task[int] | None"
    ) -> AgentCompassError | None:
        """Not cut short by a cancellation, which rises after it. Returns why it failed."""
        killing = asyncio.create_task(self._kill(mark, exited))
        cancelled: asyncio.CancelledError | None = None
        while not killing.done():
            try:
                await asyncio.wait([killing])
            except asyncio.CancelledError as error:
                cancelled = error
        if cancelled is not None:
            raise cancelled
        return killing.result()

    async def _kill(
        self, mark: str, exited: "asyncio.Task[int] | None"
    ) -> AgentCompassError | None:
        if self._closed or self._ended.done():
            return lost("the sandbox is gone")
        line = f"{scripts.MARK}={mark}"
        try:
            killing = await within(
                _KILL_SECONDS,
                self.sandbox.exec.aio("/bin/sh", "-c", scripts.KILL, "sh", line, text=False),
            )
            await self._or_gone(within(_KILL_SECONDS, killing.wait.aio()))
        except Exception as error:  # told to who asked for the command to end
            return lost(f"a command could not be ended ({one_line(error)})")
        if exited is not None:
            await asyncio.wait([exited], timeout=_DEAD_SECONDS)
        return None

    async def _until_ended(self) -> None:
        """Until the sandbox is over, by whatever hand."""
        while True:
            try:
                await self.sandbox.wait.aio(raise_on_termination=False)
                return
            except Exception as error:  # sorted by `trouble`
                if trouble(error) not in (Trouble.TRANSIENT, Trouble.LIMITED):
                    return
            await asyncio.sleep(5.0)

    def _raise(self, error: BaseException) -> NoReturn:
        """As environment.lost what speaks of the sandbox or the way to it; else as it is."""
        match trouble(error):
            case Trouble.GONE:
                raise lost("the sandbox is gone") from error
            case Trouble.TRANSIENT | Trouble.LIMITED | Trouble.REFUSED_US:
                raise lost(f"the sandbox cannot be reached ({one_line(error)})") from error
        raise error


async def _stopped(tasks: Sequence["asyncio.Task[Any]"]) -> None:
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks, timeout=5)
    for task in tasks:
        if task.done() and not task.cancelled():
            task.exception()  # retrieved, so that asyncio does not report it as lost
