"""An attempt's sandbox: opened and set up in the agent's stage, kept for the grader only if it
reuses it."""

import logging
import os
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from agentcompass.components.configuration.variables import resolved
from agentcompass.components.contracts.errors import AgentCompassError, Code
from agentcompass.components.contracts.requirements import Requirements, SandboxPhase
from agentcompass.components.contracts.run import ExecutionSettings
from agentcompass.components.contracts.sandbox import (
    DEFAULT_CAPTURE,
    Capture,
    CaptureLimits,
    Environment,
    ExecResult,
)
from agentcompass.components.execution.job import Job
from agentcompass.components.execution.parts import Parts

log = logging.getLogger(__name__)


class AgentSandbox:
    """Opens nothing until told; closes at the latest when its block is left."""

    def __init__(self, parts: Parts, job: Job, purpose: str = "run") -> None:
        self._parts, self._job, self._purpose = parts, job, purpose
        self._stack = AsyncExitStack()
        self.environment: Environment | None = None
        self.image: str | None = None
        """What the latest sandbox was made from; stays when it closes."""

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
        """Open it, put `files` in place, run `commands`. Raises environment.*."""
        parts, job = self._parts, self._job
        if self._purpose == "grade":
            required, tasks = parts.grading_requirements(job.task), [job.task]
        else:
            required = parts.requirements(job.task)
            tasks = [step.task for step in parts.steps(job.sample)] or [job.task]
        opening = parts.environments.open(required, job.label(self._purpose, tasks))
        opened = await self._stack.enter_async_context(opening)
        self.image = opened.image
        self.environment = AttemptEnvironment(opened, self._job.settings, required)
        await _set_up(self.environment, required)
        return self.environment

    async def close(self) -> None:
        """A sandbox that will not close takes nothing away from the attempt's result."""
        self.environment = None
        try:
            await self._stack.aclose()
        except Exception as error:  # providers fail in their own ways; the result stands
            log.warning("sandbox of %s did not close: %s", self._job.key, error)


async def _set_up(env: Environment, required: Requirements) -> None:
    for target, source in required.files.items():
        await env.upload(Path(source).expanduser(), target)
    for command in required.commands:
        result = await env.exec(command)
        if not result.ok:
            output = (result.stderr or result.stdout).strip()
            # Whole: what is cut before it is masked may keep half a secret.
            raise AgentCompassError(
                Code.ENVIRONMENT_SETUP,
                f"set-up command {command!r} ended with {result.exit_code}: {output}",
            )


class AttemptEnvironment:
    """Satisfies Environment: the sandbox as one attempt sees it. Adds the variables of the phase,
    keeps as much of a command's output as the user asked for unless the caller says otherwise,
    and captures no more than both allow."""

    def __init__(
        self, inner: Environment, settings: ExecutionSettings, required: Requirements
    ) -> None:
        self.workdir: str = inner.workdir
        self.image = inner.image
        self.disk_limited = required.resources.disk_mb is not None
        self._inner, self._output_limit_kb = inner, settings.output_limit_kb
        self._most = settings.artifact_limits
        self._required = required
        self._variables: Mapping[str, str] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)  # what a provider offers beyond the contract

    async def enter(self, phase: SandboxPhase) -> None:
        await self._inner.enter(phase)
        self._variables = resolved(self._required.during(phase), os.environ, f"{phase}_env")

    async def model_address(self, base_url: str) -> str:
        return await self._inner.model_address(base_url)

    async def alive(self) -> bool:
        return await self._inner.alive()

    async def exec(
        self,
        command: str | Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        output_limit_kb: int | None = None,
        **options: Any,
    ) -> ExecResult:
        return await self._inner.exec(
            command,
            env={**self._variables, **(env or {})},
            output_limit_kb=output_limit_kb or self._output_limit_kb,
            **options,
        )

    async def read_file(self, path: str, *, max_bytes: int | None = None) -> bytes:
        return await self._inner.read_file(path, max_bytes=max_bytes)

    async def write_file(self, path: str, content: bytes, *, mode: int = 0o644) -> None:
        await self._inner.write_file(path, content, mode=mode)

    async def upload(self, source: Path, target: str) -> None:
        await self._inner.upload(source, target)

    async def capture(self, path: str, limits: CaptureLimits = DEFAULT_CAPTURE) -> Capture:
        within_both = CaptureLimits(
            max_files=min(limits.max_files, self._most.max_files),
            max_bytes=min(limits.max_bytes, int(self._most.max_mb * 2**20)),
        )
        return await self._inner.capture(path, within_both)
