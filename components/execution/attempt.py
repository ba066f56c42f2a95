"""One attempt, top to bottom. No Prefect here: it can be read and tested alone."""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from functools import partial
from typing import Protocol

from agentcompass.components.contracts.attempt import AttemptRecord, Checkpoint, Note, Verdict
from agentcompass.components.contracts.errors import AgentCompassError
from agentcompass.components.execution.agent_stage import let_agent_try
from agentcompass.components.execution.desk import AttemptDesk
from agentcompass.components.execution.job import Job
from agentcompass.components.execution.parts import Parts
from agentcompass.components.execution.sandbox import AgentSandbox
from agentcompass.components.execution.score_stage import judge


class Stages(Protocol):
    """Who carries a stage out: directly, or as a Prefect task run."""

    async def agent(
        self, job: Job, work: Callable[[], Awaitable[Checkpoint]], *, kept: bool
    ) -> Checkpoint:
        """`kept`: the work only hands out a checkpoint that exists."""
        ...

    async def score(self, job: Job, work: Callable[[], Awaitable[Verdict]]) -> Verdict: ...

    async def recall(self, job: Job) -> None:
        """The attempt was scored in an earlier run; nothing is done."""
        ...


async def run_attempt(job: Job, parts: Parts, desk: AttemptDesk, stages: Stages) -> AttemptRecord:
    """Let the agent try, keep what it left, judge it, and tell how it went.

    Every failure ends in the record, with its code and phase; only cancellation rises. A desk
    with a checkpoint goes straight to the judging.
    """
    started_at = datetime.now(UTC)
    verdict = failure = None
    sandbox = AgentSandbox(parts, job)
    model = desk.model = parts.model.client(job.key)
    kept = desk.checkpoint is not None
    try:
        async with sandbox:
            trying = partial(let_agent_try, job, parts, model, sandbox, desk)
            checkpoint = await stages.agent(job, desk.recall if kept else trying, kept=kept)
            if parts.verification(job.task) != "reuse":
                await sandbox.close()
            judging = partial(judge, job, parts, checkpoint, sandbox.environment, desk)
            verdict = await stages.score(job, judging)
    except AgentCompassError as error:
        failure = Note(code=error.code, phase=desk.phase, message=str(error))
    left = desk.checkpoint
    return AttemptRecord(
        key=job.key,
        status="unscored" if verdict is None else "scored",
        verdict=verdict,
        failure=failure,
        notes=(*desk.notes, *(verdict.notes if verdict else ())),
        submission=left.submission if left else None,
        timed_out=left is not None and left.timed_out,
        usage=desk.spent(),
        times=desk.judged_times() if left else desk.times(model),
        started_at=left.started_at if left else started_at,
        ended_at=datetime.now(UTC),
        harness_version=left.harness_version if left else None,
        image=left.image if left else sandbox.image,
    )
