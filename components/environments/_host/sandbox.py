"""One open `host_process` sandbox: commands and files in a private workspace."""

import asyncio
import errno
import logging
import os
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from pathlib import Path
from threading import Event
from typing import Any, Concatenate, ParamSpec, TypeVar

from agentcompass.components.contracts.errors import AgentCompassError, Code
from agentcompass.components.contracts.requirements import SandboxPhase
from agentcompass.components.contracts.sandbox import (
    DEFAULT_CAPTURE,
    Capture,
    CaptureLimits,
    ExecResult,
)
from agentcompass.components.environments._host import files as _files
from agentcompass.components.environments._host.bubblewrap import Walls
from agentcompass.components.environments._host.command import (
    CommandPapers,
    encoded,
    unstartable,
)
from agentcompass.components.environments._host.link import (
    KeeperLink,
    RunningCommand,
)
from agentcompass.components.environments._host.mending import mended
from agentcompass.components.environments._host.output import OutputStream
from agentcompass.components.environments._host.place import Place
from agentcompass.components.environments._host.upload import upload

_log = logging.getLogger(__name__)

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
    """Satisfies contracts.sandbox.Environment. Without isolation absolute paths are this
    machine's own; with it, the sandbox's."""

    isolation: Walls | None = None

    def __init__(
        self,
        link: KeeperLink,
        shell: str,
        variables: Mapping[str, str],
        user: str,
        *,
        workdir: str | None = None,
        owner: int | None = None,
    ) -> None:
        """`owner`: the id that commands run as, if it is not ours."""
        self.workdir = workdir or f"{link.root}/work"
        self.image: str | None = None
        self.link = link
        self._shell = shell
        self._variables = variables
        self._user = user
        self._owner = owner
        self._closing = Event()
        self._transfers: set[Future[Any]] = set()

    async def enter(self, phase: SandboxPhase) -> None:
        """Without isolation nothing changes: only `public` can be had."""
        self._check_open()
        if self.isolation is not None:
            await self.isolation.enter(phase)

    async def model_address(self, base_url: str) -> str:
        """Without isolation as it is: a command runs on this machine."""
        self._check_open()
        return base_url if self.isolation is None else await self.isolation.model_address(base_url)

    async def alive(self) -> bool:
        return not (self._closing.is_set() or self.link.lost)

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
        directory = str(Path(self.workdir, _files.local(cwd or "")))
        if problem := unstartable(argv, directory, variables):
            return ExecResult(problem[0], "", problem[1])
        started = time.monotonic()
        papers = await self._papers(argv, directory, variables, stdin)
        limit = (output_limit_kb or OUTPUT_LIMIT_KB) * 1024
        streams: list[OutputStream] = []
        try:
            for _ in range(1 if merge_stderr else 2):
                streams.append(self._stream(limit))
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
        return await self._transfer(_files.read_file, self._path(path), max_bytes, self._closing)

    async def write_file(self, path: str, content: bytes, *, mode: int = 0o644) -> None:
        """A directory in its place raises IsADirectoryError. Links in its parents are followed."""
        await self._transfer(_files.write_file, self._path(path), content, mode, self._closing)

    async def upload(self, source: Path, target: str) -> None:
        """See the contract. Links in the parents of `target` are followed."""
        await self._transfer(upload, source, self._path(target), self._closing)

    async def capture(self, path: str, limits: CaptureLimits = DEFAULT_CAPTURE) -> Capture:
        """Names that are not UTF-8 are left out by an escaped name. At most 200 are named."""
        return await self._transfer(
            _files.capture, self.workdir, self._path(path), limits, self._closing
        )

    async def close(self) -> bool:
        """End every process and remove the workspace; True when nothing is left."""
        self._closing.set()
        patience = time.monotonic() + _DEAD_SECONDS
        while self._transfers and time.monotonic() < patience:
            await asyncio.sleep(0.005)
        if self.isolation is not None:
            await self.isolation.close()
        return await self.link.end()

    async def _papers(
        self, argv: list[str], directory: str, variables: Mapping[str, str], stdin: bytes | None
    ) -> CommandPapers:
        contents = (
            [encoded(part) for part in argv],
            os.fsencode(directory),
            {encoded(name): encoded(value) for name, value in variables.items()},
            stdin,
        )
        if stdin is not None and len(stdin) > _LARGE_BYTES:
            try:
                return await self._transfer(lambda _: CommandPapers(*contents))
            except OSError as error:
                raise self._ours(error) from error
        try:
            return CommandPapers(*contents)
        except OSError as error:
            raise self._ours(error) from error

    async def _start(
        self, papers: CommandPapers, streams: Sequence[OutputStream]
    ) -> RunningCommand:
        writers = [streams[0].writer, streams[-1].writer]
        while True:
            self._check_open()
            try:
                running = self.link.run(papers, writers, [stream.reader for stream in streams])
            except BlockingIOError:
                await asyncio.sleep(0.01)
                continue
            except OSError as error:
                raise self._ours(error) from error
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
                self.link.kill(running)
                await asyncio.wait([running.dead], timeout=_DEAD_SECONDS)
            await asyncio.wait([stream.ended for stream in streams], timeout=_DRAIN_SECONDS)
        except asyncio.CancelledError:
            self.link.kill(running)
            await asyncio.wait([running.dead], timeout=_DEAD_SECONDS)
            raise
        if timed_out:
            return None
        self.link.drop(running)
        exit_code = running.exited.result()
        if exit_code is None:
            raise AgentCompassError(
                Code.ENVIRONMENT_LOST, "the sandbox went away while a command ran in it"
            )
        return exit_code

    def _stream(self, limit: int) -> OutputStream:
        try:
            return OutputStream(limit, self._owner)
        except OSError as error:
            raise self._ours(error) from error

    async def _transfer(
        self, work: Callable[Concatenate[Place, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """File work in a thread; a close waits until it is out of the workspace."""
        self._check_open()
        try:
            # One of its own: the sandbox may end, and its number be given to another file.
            view = None if self.link.view is None else os.dup(self.link.view)
        except OSError as error:
            raise self._ours(error) from error
        place = Place(view, self._owner)
        future = _file_threads().submit(work, place, *args, **kwargs)
        future.add_done_callback(lambda _: place.close())
        self._transfers.add(future)
        future.add_done_callback(self._transfers.discard)
        try:
            return await asyncio.wrap_future(future)
        except OSError as error:
            explained = self._explained(error)
            if explained is error:
                raise
            raise explained from error

    def _ours(self, error: OSError) -> Exception:
        """A failure on our side of a command: never the command's, never told to a model."""
        explained = self._explained(error)
        if explained is not error:
            return explained
        return AgentCompassError(
            Code.ENVIRONMENT_LOST, f"the sandbox cannot be given any work: {error}"
        )

    def _explained(self, error: OSError) -> Exception:
        """The error itself, unless it tells of the whole sandbox or machine."""
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            return AgentCompassError(
                Code.ENVIRONMENT_DISK_FULL, f"no space left for the sandbox {self.link.root}"
            )
        if error.errno in _files.SHORTAGES:
            return AgentCompassError(
                Code.ENVIRONMENT_LOST,
                f"this machine is short of what a sandbox needs ({error.strerror}): raise "
                "`ulimit -n`, or lower --task-concurrency",
            )
        if self._closing.is_set() or self.link.lost:
            return AgentCompassError(Code.ENVIRONMENT_LOST, "the sandbox is gone")
        return error

    def _path(self, path: str) -> str:
        if "\0" in path:
            raise FileNotFoundError(errno.ENOENT, "the path holds a NUL character", path)
        return str(Path(self.workdir, _files.local(path)))

    def _check_open(self) -> None:
        if self._closing.is_set() or self.link.lost:
            raise AgentCompassError(Code.ENVIRONMENT_LOST, "the sandbox is gone")
        if self.isolation is not None:
            return  # its folders are mounted: no command can remove or replace them
        try:
            done = mended(self.link.root)
        except OSError as error:
            raise AgentCompassError(
                Code.ENVIRONMENT_LOST, f"the workspace cannot be mended: {error}"
            ) from error
        if done:
            _log.warning("a command destroyed its own workspace: %s", done)

    def _check_user(self, user: str | None) -> None:
        if user is not None and user != self._user:
            raise AgentCompassError(
                Code.ENVIRONMENT_SETUP,
                f"host_process runs commands as {self._user} only, not as {user!r}; "
                "use --env docker",
            )


@cache
def _file_threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(_FILE_THREADS, thread_name_prefix="sandbox-files")
