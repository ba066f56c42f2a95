"""What a sandbox does for whoever holds it: commands, files, and what a provider can promise."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Protocol

from agentcompass.components.contracts.attempt import AttemptKey
from agentcompass.components.contracts.frozen import Frozen
from agentcompass.components.contracts.requirements import (
    NetworkKind,
    ResourceName,
    SandboxPhase,
)


@dataclass(frozen=True)
class ExecResult:
    """The end of one command.

    `stdout` and `stderr` are decoded as UTF-8 with replacement. Over the cap the head and the
    tail are kept around a one-line marker that tells how many bytes were dropped.
    """

    exit_code: int | None
    """None if it timed out; negative: killed by that signal."""
    stdout: str
    stderr: str
    timed_out: bool = False
    stdout_dropped_bytes: int = 0
    stderr_dropped_bytes: int = 0
    out_of_memory: bool = False
    """The sandbox's memory limit killed something while the command ran."""
    duration_seconds: float = 0.0

    @property
    def ok(self) -> bool:
        return self.exit_code == 0 and not self.timed_out


@dataclass(frozen=True)
class CapturedFile:
    """A file read out of a sandbox."""

    path: str
    """POSIX, relative to the directory that was asked for."""
    content: bytes
    mode: int = 0o644


@dataclass(frozen=True)
class Capture:
    """The files of a directory, within limits; what was left out is named."""

    files: tuple[CapturedFile, ...]
    left_out: tuple[str, ...] = ()
    """"path: reason" for each file over a limit or not a regular file."""


@dataclass(frozen=True)
class CaptureLimits:
    max_files: int = 1_000
    max_bytes: int = 64 * 1024 * 1024


DEFAULT_CAPTURE = CaptureLimits()


class Environment(Protocol):
    """An open sandbox. Relative paths are relative to `workdir`.

    Every method raises AgentCompassError(environment.lost) when the sandbox is gone.
    """

    workdir: str
    """Absolute path, inside the sandbox, where the agent works."""
    image: str | None
    """What it was made from, by content (`name@sha256:…`, or an image id); None: no image."""

    async def enter(self, phase: SandboxPhase) -> None:
        """Put the network policy of a phase in force, for what runs already as well. A sandbox
        opens in `baseline`. Returns once nothing of the earlier policy holds any more."""
        ...

    async def model_address(self, base_url: str) -> str:
        """Where a program inside reaches the model endpoint at `base_url` (the host's view of
        it, loopback included), whatever the network policy.

        Raises AgentCompassError(environment.setup) where there is no way.
        """
        ...

    async def alive(self) -> bool:
        """Whether it still runs, as the provider sees it from outside: what was done inside (no
        shell left, no process allowed) changes nothing. Never raises; no answer is False."""
        ...

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
        """Run a shell line (`bash -c`, else `sh -c`) or an argv to its end.

        A command over its time is killed with everything it started, and says `timed_out`,
        whatever exit code it left. stdin is empty unless given. A program that cannot be
        started is exit code 127 (not found) or 126 (not executable) with the reason on stderr.
        """
        ...

    async def read_file(self, path: str, *, max_bytes: int | None = None) -> bytes:
        """Raises FileNotFoundError, IsADirectoryError, PermissionError, or ValueError if larger."""
        ...

    async def write_file(self, path: str, content: bytes, *, mode: int = 0o644) -> None:
        """Write a whole file; makes missing parents; replaces what stands there, links included."""
        ...

    async def upload(self, source: Path, target: str) -> None:
        """Copy a local file or folder to `target` (made with its parents; a folder is merged
        into one that is there). Modes and links stay; owner is who runs commands."""
        ...

    async def capture(self, path: str, limits: CaptureLimits = DEFAULT_CAPTURE) -> Capture:
        """Read all regular files under a directory; never follows links, never hangs on a FIFO."""
        ...


class Capabilities(Frozen):
    """What a provider can promise; a plan that needs more is refused at preflight."""

    isolated: bool
    """The agent cannot reach the host's files."""
    images: bool = False
    builds: bool = False
    """Images from a Dockerfile."""
    workdir: bool = False
    """The task may choose an absolute workdir."""
    users: bool = False
    """Commands may run as another user of the sandbox."""
    resources: frozenset[ResourceName] = frozenset()
    """Limits it enforces."""
    network: frozenset[NetworkKind] = frozenset()
    """Policies it enforces beside `public`."""
    network_phases: bool = False
    """The policy may change while the sandbox is open."""
    model_address: bool = False
    """A program inside reaches a model endpoint that only this machine can see."""
    open_qps: float = 0.0
    """Sandboxes opened per second unless the user says otherwise; 0: no pacing."""


@dataclass(frozen=True)
class SandboxLabel:
    """Whose sandbox it is, and for how long: for names, labels and cleaning up."""

    run_id: str
    attempt: AttemptKey
    purpose: str = "run"
    """`run` (the agent's) or `grade` (a fresh one for the grader)."""
    keep: bool = False
    """For debugging: it stays when it closes, and the provider says how to reach it."""
    lifetime_seconds: float | None = None
    """More than the sum of the deadlines it can see; a provider that ends sandboxes by itself
    must not do so before. None: no deadline."""


class Leftover(Frozen):
    """A sandbox, or what is left of one, whose owner is dead, or that was kept on purpose."""

    id: str
    """For the provider: a folder, a container, a sandbox id."""
    run_id: str
    task_id: str
    purpose: str
    created_at: datetime | None = None
    kept: bool = False
    """By --keep-environment; only asked for by name or with --kept it is removed."""
    owner: str = ""
    """For people: the process and machine that opened it."""
