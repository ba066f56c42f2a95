"""The agent's stage: open the sandbox, prepare the task, let the agent try, keep what it left."""

import asyncio
from datetime import UTC, datetime
from functools import partial
from typing import cast

from agentcompass.components.contracts.attempt import Checkpoint, Submission
from agentcompass.components.contracts.errors import AgentCompassError, Code, Phase
from agentcompass.components.contracts.protocols import Harness, ModelClient, SolutionHarness
from agentcompass.components.contracts.sandbox import Environment
from agentcompass.components.execution.collecting import checked, collect
from agentcompass.components.execution.deadlines import (
    deadlines,
    until_overrun,
    within,
)
from agentcompass.components.execution.desk import AttemptDesk
from agentcompass.components.execution.job import Job
from agentcompass.components.execution.log import TrajectoryLog
from agentcompass.components.execution.parts import Parts
from agentcompass.components.execution.sandbox import AgentSandbox
from agentcompass.components.execution.steps import step_by_step


async def let_agent_try(
    job: Job, parts: Parts, model: ModelClient, sandbox: AgentSandbox, desk: AttemptDesk
) -> Checkpoint:
    """The checkpoint, already on disk. Failures without a gradable result rise with their code."""
    started_at, limits = datetime.now(UTC), deadlines(job.settings, job.task)
    log = TrajectoryLog(parts.harness_id, parts.harness_version, model.name, job.key)

    needs_sandbox = parts.harness.needs.sandbox or parts.benchmark.needs_sandbox
    if needs_sandbox:
        await parts.pace.turn()
    with desk.in_phase(Phase.SETUP, unexpected=Code.ENVIRONMENT_SETUP):
        env = await within(
            limits.setup,
            Code.ENVIRONMENT_SETUP_TIMEOUT,
            _set_up(job, parts, sandbox, needs_sandbox),
        )
    call = partial(_call, parts=parts, env=env, model=model, log=log, desk=desk)
    try:
        if parts.steps(job.sample):
            submission, timed_out = await step_by_step(job, parts, env, desk, call)
        else:
            submission, timed_out = await call(job, Submission())
    finally:
        desk.notes.extend(log.notes)
        await asyncio.to_thread(desk.save_trajectory, log.trajectory())
    checkpoint = Checkpoint(
        key=job.key,
        content_hash=job.sample.content_hash,
        submission=submission,
        notes=tuple(desk.notes),
        timed_out=timed_out,
        usage=model.usage,
        times=desk.times(model),
        started_at=started_at,
        ended_at=datetime.now(UTC),
        harness_version=log.version,
        image=sandbox.image,
    )
    await asyncio.to_thread(desk.save_checkpoint, checkpoint)
    return checkpoint


async def _set_up(
    job: Job, parts: Parts, sandbox: AgentSandbox, needs_sandbox: bool
) -> Environment | None:
    if not needs_sandbox:
        return None
    env = await sandbox.open()
    await parts.benchmark.prepare(job.task, env)
    if not parts.steps(job.sample):  # these come with a preparation each
        await env.enter("run")
    return env


async def _call(
    job: Job,
    earlier: Submission,
    *,
    parts: Parts,
    env: Environment | None,
    model: ModelClient,
    log: TrajectoryLog,
    desk: AttemptDesk,
) -> tuple[Submission, bool]:
    """Let the agent work and take what it left, beside what it left earlier; and whether it was
    stopped at its deadline. An agent that crashed has left what it has left."""
    try:
        with desk.in_phase(Phase.RUN, unexpected=Code.HARNESS_CRASHED):
            submission, timed_out = await _run(job, parts, env, model, log, desk)
    except AgentCompassError as error:
        if not error.policy.graded:
            raise
        desk.note(error.code, str(error))
        submission, timed_out = Submission(stop_reason=error.code), False
    artifacts = earlier.artifacts + submission.artifacts
    submission = submission.model_copy(update={"artifacts": artifacts})
    with desk.in_phase(Phase.COLLECT, unexpected=Code.FRAMEWORK_UNEXPECTED):
        seconds = deadlines(job.settings, job.task).collect
        left = await collect(parts.benchmark, job.task, env, submission, desk, seconds)
        return left, timed_out


async def _run(
    job: Job,
    parts: Parts,
    env: Environment | None,
    model: ModelClient,
    log: TrajectoryLog,
    desk: AttemptDesk,
) -> tuple[Submission, bool]:
    """The harness's submission, and whether it was stopped at the run deadline; what ended with
    none then is a submission that says so.

    The agent ran out of time, unless one unanswered call to the model took most of it.
    """
    limits = deadlines(job.settings, job.task)
    overran, unanswered, waited = False, 0.0, model.waiting_seconds

    def at_deadline() -> None:
        nonlocal overran, unanswered
        overran, unanswered = True, model.pending_seconds

    submission = await until_overrun(
        _try(job, parts, env, model, log),
        limits.run,
        limits.grace,
        paused=lambda: model.waiting_seconds - waited,
        at_deadline=at_deadline,
    )
    if overran and unanswered > (limits.run or 0) / 2:
        raise AgentCompassError(
            Code.MODEL_TIMEOUT,
            f"one call to the model had gone unanswered for {unanswered:.0f} s "
            f"when the run deadline of {limits.run:g} s came",
        )
    if overran:
        desk.note(Code.HARNESS_TIMEOUT, f"stopped at the run deadline of {limits.run:g} s")
    return submission or Submission(stop_reason="timeout"), overran


async def _try(
    job: Job, parts: Parts, env: Environment | None, model: ModelClient, log: TrajectoryLog
) -> Submission:
    submission: object
    if parts.harness.needs.solution:
        solution = parts.benchmark.solution(job.sample)
        player = cast(SolutionHarness, parts.harness)
        submission = await player.play(job.task, solution, env, log)
    else:
        submission = await cast(Harness, parts.harness).run(job.task, env, model, log)
    return checked(submission, "the harness")
