"""One open Daytona sandbox."""

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from agentcompass.components.contracts.errors import AgentCompassError, Code
from agentcompass.components.contracts.requirements import SandboxPhase
from agentcompass.components.contracts.sandbox import (
    DEFAULT_CAPTURE,
    Capture,
    CaptureLimits,
    ExecResult,
)
from agentcompass.components.environments._clipped_output import ClippedOutput
from agentcompass.components.environments._daytona.commands import DaytonaCommands, Stream
from agentcompass.components.environments._daytona.files import DaytonaFiles
from agentcompass.components.environments._daytona.network import DaytonaNetwork

if TYPE_CHECKING:
    from daytona import AsyncSandbox

OUTPUT_LIMIT_KB = 256
"""Kept of each stream of a command unless the caller says otherwise."""


class DaytonaSandbox:
    """Satisfies contracts.sandbox.Environment."""

    def __init__(
        self,
        sandbox: "AsyncSandbox",
        network: DaytonaNetwork,
        variables: Mapping[str, str],
        user: str | None,
        image: str | None,
    ) -> None:
        """`image`: by content, where that is known beforehand."""
        self.id = sandbox.id
        # What Daytona built is named by a digest of what it was built from; its snapshots keep
        # their content for as long as they have their name.
        built = sandbox.build_info.snapshot_ref if sandbox.build_info else None
        self.image = image or built or sandbox.snapshot
        self.commands = DaytonaCommands(sandbox)
        self._network = network
        self._variables = variables
        self._user = user

    async def prepare(self, workdir: str | None) -> None:
        await self.commands.set_up(workdir, self._user)
        self.workdir = self.commands.place.workdir
        self._check_user(self._user, Code.ENVIRONMENT_START)
        self._files = DaytonaFiles(self.commands, self._user)

    async def enter(self, phase: SandboxPhase) -> None:
        await self._network.enter(self.commands, phase)

    async def model_address(self, base_url: str) -> str:
        """Only what the internet sees; then it is let through in every phase."""
        await self._network.let_through(self.commands, base_url)
        return base_url

    async def alive(self) -> bool:
        """Daytona's own daemon inside answers, and says that the sandbox is started."""
        return await self.commands.answers()

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
        who = user or self._user
        self._check_user(who, Code.ENVIRONMENT_SETUP)
        variables = {**self._variables, **(env or {})}
        directory = self._files.path(cwd or ".") if "\0" not in (cwd or "") else "\0"
        if problem := _unstartable(command, directory, variables):
            return ExecResult(problem[0], "", problem[1])
        limit = (output_limit_kb or OUTPUT_LIMIT_KB) * 1024
        started = time.monotonic()
        outcome = await self.commands.run(
            command,
            cwd=directory,
            variables=variables,
            user=who,
            stdin=stdin,
            timeout_seconds=timeout_seconds,
            limit_bytes=limit,
            merge=merge_stderr,
        )
        if outcome.refused:
            raise AgentCompassError(
                Code.ENVIRONMENT_SETUP, f"there is no user {who!r} in the sandbox"
            )
        stdout, stdout_dropped = _text(outcome.stdout, limit)
        stderr, stderr_dropped = _text(outcome.stderr, limit)
        return ExecResult(
            None if outcome.timed_out else outcome.exit_code,
            stdout,
            stderr,
            timed_out=outcome.timed_out,
            stdout_dropped_bytes=stdout_dropped,
            stderr_dropped_bytes=stderr_dropped,
            out_of_memory=outcome.out_of_memory,
            duration_seconds=time.monotonic() - started,
        )

    async def read_file(self, path: str, *, max_bytes: int | None = None) -> bytes:
        """A FIFO, socket or device raises PermissionError."""
        return await self._files.read(path, max_bytes)

    async def write_file(self, path: str, content: bytes, *, mode: int = 0o644) -> None:
        """A directory in its place raises IsADirectoryError. Links in its parents are followed."""
        await self._files.write(path, content, mode)

    async def upload(self, source: Path, target: str) -> None:
        """Needs `tar` inside. Raises FileNotFoundError for a source that is not there."""
        await self._files.upload(source, target)

    async def capture(self, path: str, limits: CaptureLimits = DEFAULT_CAPTURE) -> Capture:
        """Needs `find` and `tar` inside. Names that are not UTF-8 are left out by an escaped
        name. At most 200 are named."""
        return await self._files.capture(path, limits)

    def _check_user(self, user: str | None, code: Code) -> None:
        place = self.commands.place
        if user is not None and user != place.user and not place.root:
            raise AgentCompassError(
                code,
                f"commands in this sandbox run as {place.user}, who cannot become {user!r}; "
                "use an image whose user is root, or set env-params.user",
            )


def _text(stream: Stream, limit: int) -> tuple[str, int]:
    clipped = ClippedOutput(limit)
    clipped.add(stream.head)
    if stream.dropped:
        clipped.skip(stream.dropped)
        clipped.add(stream.tail)
    else:
        clipped.add(stream.tail)
    return clipped.text()


def _unstartable(
    command: str | Sequence[str], directory: str, variables: Mapping[str, str]
) -> tuple[int, str] | None:
    """Exit code and reason for what no kernel would start."""
    parts = [command] if isinstance(command, str) else list(command)
    if not parts or (not isinstance(command, str) and not parts[0]):
        return 127, "cannot start: the command is empty\n"
    if any("\0" in text for text in (*parts, directory, *variables.values())):
        return 126, "cannot start: the command holds a NUL character\n"
    if bad := [name for name in variables if not name or "=" in name or "\0" in name]:
        return 126, f"cannot start: {bad[0]!r} is not a variable's name\n"
    return None
