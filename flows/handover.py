"""How an attempt's two stages become Prefect task runs of two sub-flows.

The agent's stage runs where the attempt runs, in the `attempts` sub-flow. Its checkpoint is
handed over to the `scoring` sub-flow, which judges it while the attempt waits: the attempt keeps
its slot (and, for graders that reuse it, its sandbox) until it is scored.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from agentcompass.components.contracts.attempt import Checkpoint, Verdict
from agentcompass.components.execution.job import Job

Work = Callable[[], Awaitable[Verdict]]
Judge = Callable[[str, Work], Awaitable[Verdict]]
Try = Callable[[str, Callable[[], Awaitable[Checkpoint]]], Awaitable[Checkpoint]]


@dataclass(frozen=True)
class Handed:
    name: str
    work: Work
    verdict: asyncio.Future[Verdict] = field(default_factory=asyncio.Future)


class HandOver:
    """Satisfies execution.attempt.Stages. Holds at most as many items as attempts run."""

    def __init__(self, attempt: Try) -> None:
        self._attempt = attempt
        self._waiting: asyncio.Queue[Handed | None] = asyncio.Queue()

    async def agent(self, job: Job, work: Callable[[], Awaitable[Checkpoint]]) -> Checkpoint:
        return await self._attempt(str(job.key), work)

    async def score(self, job: Job, work: Work) -> Verdict:
        handed = Handed(str(job.key), work)
        self._waiting.put_nowait(handed)
        return await handed.verdict  # cancelled with the attempt, and then not judged

    @contextmanager
    def closing(self) -> Iterator[None]:
        """After this block no more attempts will come."""
        try:
            yield
        finally:
            self._waiting.put_nowait(None)

    async def judge_all(self, judge: Judge) -> None:
        """Judge everything handed over, each at once, until closed."""
        async with asyncio.TaskGroup() as judging:
            while (handed := await self._waiting.get()) is not None:
                judging.create_task(_judge_one(handed, judge))


async def _judge_one(handed: Handed, judge: Judge) -> None:
    if handed.verdict.done():
        return
    judging = asyncio.ensure_future(judge(handed.name, handed.work))
    # An attempt that is cancelled cancels its future, and that its judging.
    handed.verdict.add_done_callback(lambda _: judging.cancel())
    try:
        verdict = await judging
    except asyncio.CancelledError:
        handed.verdict.cancel()
    except Exception as error:  # travels to the attempt, which gives it its code
        if not handed.verdict.done():
            handed.verdict.set_exception(error)
    else:
        if not handed.verdict.done():
            handed.verdict.set_result(verdict)
