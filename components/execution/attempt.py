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

    async def agent(self, job: Job, work: Callable[[], Awaitable[Checkpoint]]) -> Checkpoint: ...
    async def score(self, job: Job, work: Callable[[], Awaitable[Verdict]]) -> Verdict: ...


async def run_attempt(job: Job, parts: Parts, desk: AttemptDesk, stages: Stages) -> AttemptRecord:
    """Let the agent try, keep what it left, judge it, and tell how it went.

    Every failure ends in the record, with its code and phase; only cancellation rises.
    """
    started_at = datetime.now(UTC)
    checkpoint = verdict = failure = None
    model = parts.model.client(job.key)
    try:
        async with AgentSandbox(parts.environments, job) as sandbox:
            work = partial(let_agent_try, job, parts, model, sandbox, desk)
            checkpoint = await stages.agent(job, work)
            if parts.benchmark.verification != "reuse":
                await sandbox.close()
            judging = partial(judge, job, parts, checkpoint, sandbox.environment, desk)
            verdict = await stages.score(job, judging)
    except AgentCompassError as error:
        failure = Note(code=error.code, phase=desk.phase, message=str(error))
    return AttemptRecord(
        key=job.key,
        status="unscored" if verdict is None else "scored",
        verdict=verdict,
        failure=failure,
        notes=(*desk.notes, *(verdict.notes if verdict else ())),
        submission=checkpoint.submission if checkpoint else None,
        timed_out=checkpoint is not None and checkpoint.timed_out,
        usage=model.usage,
        times=desk.times(model.model_seconds, model.waiting_seconds),
        started_at=started_at,
        ended_at=datetime.now(UTC),
        harness_version=checkpoint.harness_version if checkpoint else None,
    )
