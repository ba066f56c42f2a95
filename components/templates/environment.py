"""An example: processes of this machine, with a shell line of yours before each command."""

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from agentcompass.components.contracts.protocols import Component
from agentcompass.components.contracts.requirements import Requirements, SandboxPhase
from agentcompass.components.contracts.sandbox import (
    DEFAULT_CAPTURE,
    Capture,
    CaptureLimits,
    Environment,
    ExecResult,
    Leftover,
    SandboxLabel,
)
from agentcompass.components.environments import host_process


class ExampleParameters(host_process.HostProcessParameters):
    """Each field is a key of --env-params; extend EnvironmentParameters for a place of your own."""

    before: str = "ulimit -c 0"
    """A shell line that is run before each command; this one: no core dumps."""


class Example:
    """A provider that builds on another one. For a place of your own, open and close it in `open`,
    and let each method of `ExampleSandbox` do its work there."""

    def __init__(self, parameters: ExampleParameters) -> None:
        self._before = parameters.before
        self._below = host_process.COMPONENT.create(parameters)
        self.capabilities = self._below.capabilities  # promise only what holds

    async def preflight(self, requirements: Iterable[Requirements]) -> list[str]:
        """Every reason why these sandboxes could not open here, one line each."""
        return list(await self._below.preflight(requirements))

    @asynccontextmanager
    async def open(
        self, requirements: Requirements, label: SandboxLabel
    ) -> AsyncIterator[Environment]:
        """All-or-nothing. Whatever happens inside, a cancellation too, nothing is left after."""
        async with self._below.open(requirements, label) as sandbox:
            yield ExampleSandbox(sandbox, self._before)

    async def leftovers(self) -> tuple[Leftover, ...]:
        """What dead runs left, found by a label of our own."""
        return tuple(await self._below.leftovers())

    async def remove_leftover(self, leftover: Leftover) -> bool:
        return bool(await self._below.remove_leftover(leftover))


class ExampleSandbox:
    def __init__(self, below: Environment, before: str) -> None:
        self._below, self._before = below, before
        self.workdir, self.image = below.workdir, below.image

    async def enter(self, phase: SandboxPhase) -> None:
        """Put the network policy of a phase in force."""
        await self._below.enter(phase)

    async def model_address(self, base_url: str) -> str:
        """Where a program inside reaches the model's endpoint."""
        return await self._below.model_address(base_url)

    async def alive(self) -> bool:
        """Whether it still runs, seen from outside."""
        return await self._below.alive()

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
        """A text is a shell's line, a sequence is a program and its arguments."""
        if isinstance(command, str):
            command = f"{self._before}\n{command}"
        else:
            command = ["sh", "-c", f'{self._before}\nexec "$@"', "sh", *command]
        return await self._below.exec(
            command,
            cwd=cwd,
            env=env,
            user=user,
            stdin=stdin,
            timeout_seconds=timeout_seconds,
            output_limit_kb=output_limit_kb,
            merge_stderr=merge_stderr,
        )

    async def read_file(self, path: str, *, max_bytes: int | None = None) -> bytes:
        return await self._below.read_file(path, max_bytes=max_bytes)

    async def write_file(self, path: str, content: bytes, *, mode: int = 0o644) -> None:
        await self._below.write_file(path, content, mode=mode)

    async def upload(self, source: Path, target: str) -> None:
        await self._below.upload(source, target)

    async def capture(self, path: str, limits: CaptureLimits = DEFAULT_CAPTURE) -> Capture:
        """All regular files under a directory, within limits."""
        return await self._below.capture(path, limits)


COMPONENT = Component(version="1", create=Example, parameters=ExampleParameters)
