"""How an attempt's two stages become Prefect task runs of two sub-flows.

The agent's stage runs where the attempt runs, in the `attempts` sub-flow. Its checkpoint is
handed over to the `scoring` sub-flow, which judges it while the attempt waits: the attempt keeps
its slot (and, for graders that reuse it, its sandbox) until it is scored.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar, cast
from uuid import UUID

from prefect import Task
from prefect.client.schemas.objects import State

from agentcompass.components.contracts.attempt import Checkpoint, Verdict
from agentcompass.components.execution.job import Job
from agentcompass.flows.endings import Stage

T = TypeVar("T")
Work = Callable[[], Awaitable[T]]

StageTask = Task[[str, str, Work[Any]], Coroutine[Any, Any, Stage]]
"""A Prefect task of a stage: called with its name, its cache key and its work."""


@dataclass(frozen=True)
class Handed:
    job: Job
    work: Work[Verdict | None]
    fresh: bool
    verdict: asyncio.Future[Verdict | None] = field(default_factory=asyncio.Future)


class HandOver:
    """Satisfies execution.attempt.Stages. Holds at most as many items as attempts run."""

    def __init__(self, attempt: StageTask, score: StageTask, records: Path) -> None:
        """`records`: the folder of Prefect's own cache records, one per stage."""
        attempt = attempt.with_options(result_storage=records)
        score = score.with_options(result_storage=records)
        # What must run is run, whatever Prefect remembers: the run's own files decide.
        self._attempt = {False: attempt.with_options(refresh_cache=True), True: attempt}
        self._score = {True: score.with_options(refresh_cache=True), False: score}
        self._waiting: asyncio.Queue[Handed | None] = asyncio.Queue()
        self.failed: dict[str, UUID] = {}
        """Attempt → the Prefect task run of its stage that failed last."""

    async def agent(self, job: Job, work: Work[Checkpoint], *, kept: bool) -> Checkpoint:
        return await self._as_task(self._attempt[kept], job, "agent", work)

    async def score(self, job: Job, work: Work[Verdict]) -> Verdict:
        verdict = await self._hand(Handed(job, work, fresh=True))
        assert verdict is not None
        return verdict

    async def recall(self, job: Job) -> None:
        await self._hand(Handed(job, _nothing, fresh=False))

    async def _hand(self, handed: Handed) -> Verdict | None:
        self._waiting.put_nowait(handed)
        return await handed.verdict  # cancelled with the attempt, and then not judged

    @contextmanager
    def closing(self) -> Iterator[None]:
        """After this block no more attempts will come."""
        try:
            yield
        finally:
            self._waiting.put_nowait(None)

    async def judge_all(self) -> None:
        """Judge everything handed over, each at once, until closed."""
        async with asyncio.TaskGroup() as judging:
            while (handed := await self._waiting.get()) is not None:
                judging.create_task(self._judge(handed))

    async def _judge(self, handed: Handed) -> None:
        if handed.verdict.done():
            return
        task = self._score[handed.fresh]
        judging = asyncio.ensure_future(self._as_task(task, handed.job, "score", handed.work))
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

    async def _as_task(self, task: StageTask, job: Job, stage: str, work: Work[T]) -> T:
        """The work's outcome, carried out by a Prefect task run that records only that it was."""
        done: list[T] = []

        async def carry_out() -> None:
            done.append(await work())

        called = task(str(job.key), job.stage_key(stage), carry_out, return_state=True)
        state = await cast(Awaitable[State[Any]], called)
        if not state.is_completed():
            if state.state_details.task_run_id:
                self.failed[str(job.key)] = state.state_details.task_run_id
            await state.aresult()  # raises what the work did
        return done[0] if done else await work()  # Prefect knew the stage: nothing was carried out


async def _nothing() -> None:
    return None
