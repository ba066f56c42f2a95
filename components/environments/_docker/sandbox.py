"""One open container: commands and files."""

import asyncio
import logging
import posixpath
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from agentcompass.components.contracts.errors import AgentCompassError, Code
from agentcompass.components.contracts.requirements import SandboxPhase
from agentcompass.components.contracts.sandbox import (
    DEFAULT_CAPTURE,
    Capture,
    CaptureLimits,
    ExecResult,
)
from agentcompass.components.environments._docker import capture as _capture
from agentcompass.components.environments._docker import files as _files
from agentcompass.components.environments._docker.command import Outputs, kill_all, run
from agentcompass.components.environments._docker.container import remove
from agentcompass.components.environments._docker.engine import Engine
from agentcompass.components.environments._docker.errors import explained
from agentcompass.components.environments._docker.files import Place
from agentcompass.components.environments._docker.stream import Stream

_log = logging.getLogger(__name__)

OUTPUT_LIMIT_KB = 256
"""Kept of each stream of a command unless the caller says otherwise."""
_CLOSE_SECONDS = 15.0
"""Waited for the engine to remove a container; without us it ends by itself all the same."""


class PhaseNetwork(Protocol):
    """What a sandbox asks of `network.SandboxNetwork`."""

    async def enter(self, phase: SandboxPhase) -> None: ...
    async def model_address(self, base_url: str) -> str: ...
    def variables(self) -> Mapping[str, str]: ...
    async def close(self) -> None: ...


class DockerSandbox:
    """Satisfies contracts.sandbox.Environment. Files are read and written as root of the
    container; what is written belongs to the sandbox's user."""

    def __init__(
        self,
        engine: Engine,
        place: Place,
        guard: Stream,
        network: PhaseNetwork,
        *,
        image: str,
        workdir: str,
        variables: Mapping[str, str],
        memory_limited: bool,
    ) -> None:
        self.workdir = workdir
        self.image: str | None = image
        self._engine, self._place, self._guard, self._network = engine, place, guard, network
        self._variables = variables
        self._memory_limited = memory_limited
        self._oom_kills = 0
        self._closed = False

    async def enter(self, phase: SandboxPhase) -> None:
        self._check_open()
        await self._network.enter(phase)

    async def model_address(self, base_url: str) -> str:
        self._check_open()
        return await self._network.model_address(base_url)

    async def alive(self) -> bool:
        if self._closed or self._guard.ended.done():
            return False
        container = self._place.container
        try:
            seen = await self._engine.call(lambda client: client.api.inspect_container(container))
        except Exception as error:  # any of the SDK's and its transport's
            _log.debug("container %s: %s", container, error)
            return False
        state = seen["State"]
        return bool(state["Running"] and not state["Paused"])

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
        variables = {**self._variables, **self._network.variables(), **(env or {})}
        directory = self._path(cwd or "")
        if problem := _unstartable(command, directory, variables):
            return ExecResult(problem[0], "", problem[1])
        started, kills = time.monotonic(), self._oom_kills
        outputs = Outputs((output_limit_kb or OUTPUT_LIMIT_KB) * 1024, merge_stderr)
        ended = await run(
            self._engine,
            self._place.container,
            command,
            outputs,
            directory=directory,
            user=self._place.user if user is None else user,
            variables=variables,
            stdin=stdin or b"",
            timeout_seconds=timeout_seconds,
        )
        if ended.oom_kills is not None:
            kills, self._oom_kills = ended.oom_kills
        else:
            # Everything was killed, or never started, or the whole container is ending.
            self._check_user(user, outputs)
            self._oom_kills = await _files.oom_kills(self._place, self._oom_kills)
        stdout, stdout_dropped = outputs.stdout.text()
        stderr, stderr_dropped = ("", 0) if merge_stderr else outputs.stderr.text()
        return ExecResult(
            ended.exit_code,
            stdout,
            stderr,
            timed_out=ended.exit_code is None,
            stdout_dropped_bytes=stdout_dropped,
            stderr_dropped_bytes=stderr_dropped,
            out_of_memory=self._memory_limited and self._oom_kills > kills,
            duration_seconds=time.monotonic() - started,
        )

    async def read_file(self, path: str, *, max_bytes: int | None = None) -> bytes:
        """A FIFO, socket or device raises PermissionError."""
        self._check_open()
        return await _files.read_file(self._place, self._path(path), max_bytes)

    async def write_file(self, path: str, content: bytes, *, mode: int = 0o644) -> None:
        """A directory in its place raises IsADirectoryError. Links in its parents are followed."""
        self._check_open()
        await _files.write_file(self._place, self._path(path), content, mode)

    async def upload(self, source: Path, target: str) -> None:
        """A file onto a directory raises IsADirectoryError; a folder onto a file
        NotADirectoryError."""
        self._check_open()
        await _files.upload(self._place, source, self._path(target))

    async def capture(self, path: str, limits: CaptureLimits = DEFAULT_CAPTURE) -> Capture:
        """Names that are not UTF-8 are left out by an escaped name. At most 200 are named."""
        self._check_open()
        return await _capture.capture(self._place, self.workdir, self._path(path), limits)

    async def close(self, keep: bool, complain: Callable[[str], None]) -> None:
        """Idempotent, bounded, raises nothing. Commands that still run end as lost."""
        if self._closed:
            return
        self._closed = True
        ends = [
            asyncio.ensure_future(self._network.close()),
            asyncio.ensure_future(
                kill_all(self._engine, self._place.container)
                if keep
                else self._engine.insist(remove, self._place.container)
            ),
        ]
        await asyncio.wait(ends, timeout=_CLOSE_SECONDS)
        self._guard.close()  # whatever the engine did: the first process ends, and all with it
        for end in ends:
            if not end.done():
                end.cancel()
                complain("the engine does not answer")
            elif (error := end.exception()) is not None:
                complain(str(explained(error, "closing it")))

    def _path(self, path: str) -> str:
        if "\0" in path:
            raise FileNotFoundError(2, "the path holds a NUL character", path)
        return posixpath.join(self.workdir, path)

    def _check_user(self, user: str | None, outputs: Outputs) -> None:
        if "unable to find user" in outputs.stdout.text()[0]:  # the engine's words, in its place
            raise AgentCompassError(
                Code.ENVIRONMENT_SETUP,
                f"commands cannot run as {user or self._place.user!r}: the image has no such user",
            )

    def _check_open(self) -> None:
        if self._closed or self._guard.ended.done():
            raise AgentCompassError(Code.ENVIRONMENT_LOST, "the container is gone")


def _unstartable(
    command: str | Sequence[str], directory: str, variables: Mapping[str, str]
) -> tuple[int, str] | None:
    """Exit code and reason for what no kernel would start."""
    argv = [command] if isinstance(command, str) else list(command)
    if not isinstance(command, str) and (not argv or not argv[0]):
        return 127, "cannot start: the command is empty\n"
    if any("\0" in text for text in (*argv, directory, *variables.values())):
        return 126, "cannot start: the command holds a NUL character\n"
    if bad := [name for name in variables if not name or "=" in name or "\0" in name]:
        return 126, f"cannot start: {bad[0]!r} is not a variable's name\n"
    size = sum(len(text) for text in (*argv, *variables, *variables.values()))
    if size > 1_800_000 or any(len(text) > 120_000 for text in argv[1:]):
        return 126, "cannot start: the argument list is too long\n"
    return None
