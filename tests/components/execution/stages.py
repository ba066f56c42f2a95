"""Stages carried out directly, without Prefect."""

from collections.abc import Awaitable, Callable

from agentcompass.components.contracts.attempt import Checkpoint, Verdict
from agentcompass.components.execution.job import Job


class Directly:
    """Satisfies execution.attempt.Stages, and counts."""

    def __init__(self) -> None:
        self.recalled: list[str] = []

    async def agent(
        self, job: Job, work: Callable[[], Awaitable[Checkpoint]], *, kept: bool
    ) -> Checkpoint:
        return await work()

    async def score(self, job: Job, work: Callable[[], Awaitable[Verdict]]) -> Verdict:
        return await work()

    async def recall(self, job: Job) -> None:
        self.recalled.append(str(job.key))
