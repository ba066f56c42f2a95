"""The agent's sandbox: opened in the agent's stage, kept for the grader only if it reuses it."""

import logging
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Self

from agentcompass.components.contracts.protocols import EnvironmentProvider
from agentcompass.components.contracts.sandbox import Environment
from agentcompass.components.execution.job import Job

log = logging.getLogger(__name__)


class AgentSandbox:
    """Opens nothing until told; closes at the latest when its block is left."""

    def __init__(self, provider: EnvironmentProvider, job: Job) -> None:
        self._provider, self._job = provider, job
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
        opening = self._provider.open(self._job.task.requirements, self._job.label())
        self.environment = await self._stack.enter_async_context(opening)
        return self.environment

    async def close(self) -> None:
        """A sandbox that will not close takes nothing away from the attempt's result."""
        self.environment = None
        try:
            await self._stack.aclose()
        except Exception as error:  # providers fail in their own ways; the result stands
            log.warning("sandbox of %s did not close: %s", self._job.key, error)
