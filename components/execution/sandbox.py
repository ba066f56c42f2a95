"""The agent's sandbox: opened in the agent's stage, kept for the grader only if it reuses it."""

import logging
from collections.abc import Sequence
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Any, Self

from agentcompass.components.contracts.protocols import EnvironmentProvider
from agentcompass.components.contracts.run import ExecutionSettings
from agentcompass.components.contracts.sandbox import (
    DEFAULT_CAPTURE,
    Capture,
    CaptureLimits,
    Environment,
    ExecResult,
)
from agentcompass.components.execution.job import Job

log = logging.getLogger(__name__)


class AgentSandbox:
    """Opens nothing until told; closes at the latest when its block is left."""

    def __init__(self, provider: EnvironmentProvider, job: Job, purpose: str = "run") -> None:
        self._provider, self._job, self._purpose = provider, job, purpose
        self._stack = AsyncExitStack()
        self.environment: Environment | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def open(self) -> Environment:
        opening = self._provider.open(self._job.task.requirements, self._job.label(self._purpose))
        opened = await self._stack.enter_async_context(opening)
        self.environment = CappedEnvironment(opened, self._job.settings)
        return self.environment

    async def close(self) -> None:
        """A sandbox that will not close takes nothing away from the attempt's result."""
        self.environment = None
        try:
            await self._stack.aclose()
        except Exception as error:  # providers fail in their own ways; the result stands
            log.warning("sandbox of %s did not close: %s", self._job.key, error)


class CappedEnvironment:
    """Satisfies Environment: keeps as much of a command's output as the user asked for, unless
    the caller says otherwise, and captures no more than both allow."""

    def __init__(self, inner: Environment, settings: ExecutionSettings) -> None:
        self.workdir: str = inner.workdir
        self._inner, self._output_limit_kb = inner, settings.output_limit_kb
        self._most = settings.artifact_limits

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)  # what a provider offers beyond the contract

    async def exec(
        self, command: str | Sequence[str], *, output_limit_kb: int | None = None, **options: Any
    ) -> ExecResult:
        limit = output_limit_kb or self._output_limit_kb
        return await self._inner.exec(command, output_limit_kb=limit, **options)

    async def read_file(self, path: str, *, max_bytes: int | None = None) -> bytes:
        return await self._inner.read_file(path, max_bytes=max_bytes)

    async def write_file(self, path: str, content: bytes, *, mode: int = 0o644) -> None:
        await self._inner.write_file(path, content, mode=mode)

    async def capture(self, path: str, limits: CaptureLimits = DEFAULT_CAPTURE) -> Capture:
        within_both = CaptureLimits(
            max_files=min(limits.max_files, self._most.max_files),
            max_bytes=min(limits.max_bytes, int(self._most.max_mb * 2**20)),
        )
        return await self._inner.capture(path, within_both)
