"""One open `host_process` sandbox: commands and files in a private workspace."""

import asyncio
import errno
import os
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from pathlib import Path
from threading import Event
from typing import Any, ParamSpec, TypeVar

from agentcompass.components.contracts.errors import AgentCompassError, Code
from agentcompass.components.contracts.sandbox import (
    DEFAULT_CAPTURE,
    Capture,
    CaptureLimits,
    ExecResult,
)
from agentcompass.components.environments import _host_files
from agentcompass.components.environments._host_link import (
    CommandPapers,
    KeeperLink,
    RunningCommand,
)
from agentcompass.components.environments._host_output import OutputStream

OUTPUT_LIMIT_KB = 256
"""Kept of each stream of a command unless the caller says otherwise."""
_DRAIN_SECONDS = 0.5
"""Waited for the end of the output after a command ended: a child it left may hold the pipe."""
_DEAD_SECONDS = 5.0
"""Waited for a command's processes to be gone after they were killed."""
_LARGE_BYTES = 1024 * 1024
_FILE_THREADS = 256  # as many as sandboxes may be busy at once; threads are made on demand

P = ParamSpec("P")
T = TypeVar("T")


class HostSandbox:
    """Satisfies contracts.sandbox.Environment. Absolute paths are this machine's own."""

    def __init__(
        self, link: KeeperLink, shell: str, variables: Mapping[str, str], user: str
    ) -> None:
        self.workdir = f"{link.root}/work"
        self._link = link
        self._shell = shell
        self._variables = variables
        self._user = user
        self._closing = Event()
        self._transfers: set[Future[Any]] = set()

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
        """See the contract. What a command leaves running in the background lives on until
        the sandbox closes, even past `timeout_seconds`, which is the command's own."""
        self._check_open()
        self._check_user(user)
        argv = [self._shell, "-c", command] if isinstance(command, str) else list(command)
        variables = {**self._variables, **(env or {})}
        directory = str(Path(self.workdir, _host_files.local(cwd or "")))
        if problem := _unstartable(argv, directory, variables):
            return ExecResult(problem[0], "", problem[1])
        started = time.monotonic()
        papers = await self._papers(argv, directory, variables, stdin)
        limit = (output_limit_kb or OUTPUT_LIMIT_KB) * 1024
        streams: list[OutputStream] = []
        try:
            for _ in range(1 if merge_stderr else 2):
                streams.append(OutputStream(limit))
            running = await self._start(papers, streams)
            papers.close()
            exit_code = await self._outcome(running, streams, started, timeout_seconds)
        finally:
            papers.close()
            for stream in streams:
                stream.close()
        stdout, stdout_dropped = streams[0].clipped.text()
        stderr, stderr_dropped = ("", 0) if merge_stderr else streams[1].clipped.text()
        return ExecResult(
            exit_code,
            stdout,
            stderr,
            timed_out=exit_code is None,
            stdout_dropped_bytes=stdout_dropped,
            stderr_dropped_bytes=stderr_dropped,
            duration_seconds=time.monotonic() - started,
        )

    async def read_file(self, path: str, *, max_bytes: int | None = None) -> bytes:
        """A FIFO, socket or device raises PermissionError."""
        return await self._transfer(
            _host_files.read_file, self._path(path), max_bytes, self._closing
        )

    async def write_file(self, path: str, content: bytes, *, mode: int = 0o644) -> None:
        """A directory in its place raises IsADirectoryError. Links in its parents are followed."""
        await self._transfer(_host_files.write_file, self._path(path), content, mode, self._closing)

    async def capture(self, path: str, limits: CaptureLimits = DEFAULT_CAPTURE) -> Capture:
        """Names that are not UTF-8 are left out by an escaped name. At most 200 are named."""
        return await self._transfer(
            _host_files.capture, self.workdir, self._path(path), limits, self._closing
        )

    async def close(self) -> bool:
        """End every process and remove the workspace; True when nothing is left."""
        self._closing.set()
        patience = time.monotonic() + _DEAD_SECONDS
        while self._transfers and time.monotonic() < patience:
            await asyncio.sleep(0.005)
        return await self._link.end()

    async def _papers(
        self, argv: list[str], directory: str, variables: Mapping[str, str], stdin: bytes | None
    ) -> CommandPapers:
        encoded = (
            [_encoded(part) for part in argv],
            os.fsencode(directory),
            {_encoded(name): _encoded(value) for name, value in variables.items()},
            stdin,
        )
        if stdin is not None and len(stdin) > _LARGE_BYTES:
            return await self._transfer(CommandPapers, *encoded)
        try:
            return CommandPapers(*encoded)
        except OSError as error:
            raise self._explained(error) from error

    async def _start(
        self, papers: CommandPapers, streams: Sequence[OutputStream]
    ) -> RunningCommand:
        writers = [streams[0].writer, streams[-1].writer]
        while True:
            self._check_open()
            try:
                running = self._link.run(papers, writers, [stream.reader for stream in streams])
            except BlockingIOError:
                await asyncio.sleep(0.01)
                continue
            except OSError as error:
                raise self._explained(error) from error
            for stream in streams:
                stream.handed_over()
            return running

    async def _outcome(
        self,
        running: RunningCommand,
        streams: Sequence[OutputStream],
        started: float,
        timeout_seconds: float | None,
    ) -> int | None:
        """Exit code once the command ended and its output is in; None: it was out of time."""
        try:
            remaining = None
            if timeout_seconds is not None:
                remaining = max(0.0, started + timeout_seconds - time.monotonic())
            await asyncio.wait([running.exited], timeout=remaining)
            timed_out = not running.exited.done()
            if timed_out:
                self._link.kill(running)
                await asyncio.wait([running.dead], timeout=_DEAD_SECONDS)
            await asyncio.wait([stream.ended for stream in streams], timeout=_DRAIN_SECONDS)
        except asyncio.CancelledError:
            self._link.kill(running)
            await asyncio.wait([running.dead], timeout=_DEAD_SECONDS)
            raise
        if timed_out:
            return None
        self._link.drop(running)
        exit_code = running.exited.result()
        if exit_code is None:
            raise AgentCompassError(
                Code.ENVIRONMENT_LOST, "the sandbox went away while a command ran in it"
            )
        return exit_code

    async def _transfer(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """File work in a thread; a close waits until it is out of the workspace."""
        self._check_open()
        future = _file_threads().submit(work, *args, **kwargs)
        self._transfers.add(future)
        future.add_done_callback(self._transfers.discard)
        try:
            return await asyncio.wrap_future(future)
        except OSError as error:
            explained = self._explained(error)
            if explained is error:
                raise
            raise explained from error

    def _explained(self, error: OSError) -> Exception:
        """The error itself, unless it tells of the whole sandbox or machine."""
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            return AgentCompassError(
                Code.ENVIRONMENT_DISK_FULL, f"no space left for the sandbox {self._link.root}"
            )
        if self._closing.is_set() or self._link.lost or not Path(self._link.root).is_dir():
            return AgentCompassError(Code.ENVIRONMENT_LOST, "the sandbox is gone")
        return error

    def _path(self, path: str) -> str:
        if "\0" in path:
            raise FileNotFoundError(errno.ENOENT, "the path holds a NUL character", path)
        return str(Path(self.workdir, _host_files.local(path)))

    def _check_open(self) -> None:
        if self._closing.is_set() or self._link.lost or not Path(self._link.root).is_dir():
            raise AgentCompassError(Code.ENVIRONMENT_LOST, "the sandbox is gone")
        if Path(self.workdir).is_symlink():
            # Followed, it would bring files of the host into the results, or write into them.
            raise AgentCompassError(
                Code.ENVIRONMENT_LOST, "the working directory was replaced by a link"
            )

    def _check_user(self, user: str | None) -> None:
        if user is not None and user != self._user:
            raise AgentCompassError(
                Code.ENVIRONMENT_SETUP,
                f"host_process runs commands as {self._user} only, not as {user!r}; "
                "use --env docker",
            )


async def to_its_end(work: Coroutine[Any, Any, T]) -> T:
    """Await what must not be cut short; a cancellation that came meanwhile rises after it."""
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled
    return task.result()


@cache
def _file_threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(_FILE_THREADS, thread_name_prefix="sandbox-files")


def _unstartable(
    argv: Sequence[str], directory: str, variables: Mapping[str, str]
) -> tuple[int, str] | None:
    """Exit code and reason for what no kernel would start."""
    if not argv or not argv[0]:
        return 127, "cannot start: the command is empty\n"
    if any("\0" in text for text in (*argv, directory, *variables.values())):
        return 126, "cannot start: the command holds a NUL character\n"
    if bad := [name for name in variables if not name or "=" in name or "\0" in name]:
        return 126, f"cannot start: {bad[0]!r} is not a variable's name\n"
    return None


def _encoded(text: str) -> bytes:
    """As a command's bytes; what came from undecodable names goes back as it was."""
    try:
        return text.encode("utf-8", errors="surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", errors="replace")
