"""The scoring stage: the benchmark judges a checkpoint, in the sandbox its mode asks for."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from pydantic import ValidationError

from agentcompass.components.contracts.attempt import Checkpoint, Verdict
from agentcompass.components.contracts.errors import AgentCompassError, Code, Phase
from agentcompass.components.contracts.invalid import first_problem
from agentcompass.components.contracts.reward import check_verdict
from agentcompass.components.contracts.sandbox import Environment
from agentcompass.components.execution.deadlines import deadlines, within
from agentcompass.components.execution.desk import AttemptDesk
from agentcompass.components.execution.job import Job
from agentcompass.components.execution.parts import Parts
from agentcompass.components.execution.sandbox import AgentSandbox


async def judge(
    job: Job,
    parts: Parts,
    checkpoint: Checkpoint,
    agent_environment: Environment | None,
    desk: AttemptDesk,
) -> Verdict:
    """A verdict with a valid reward, or an AgentCompassError that says why there is none."""
    limits = deadlines(job.settings, job.task)
    await turn_to_grade(job, parts)
    with desk.in_phase(Phase.SCORE, unexpected=Code.GRADER_CRASHED):
        judging = _verify(job, parts, checkpoint, agent_environment, desk)
        try:
            verdict = await within(limits.score, Code.GRADER_TIMEOUT, judging)
        except ValidationError as error:
            if error.title != Verdict.__name__:
                raise
            found = f"verdict.{first_problem(error)}"
            raise AgentCompassError(Code.GRADER_INVALID_REWARD, found) from error
        check_verdict(verdict, parts.benchmark.primary, parts.benchmark.score_range)
    return verdict


async def _verify(
    job: Job,
    parts: Parts,
    checkpoint: Checkpoint,
    agent_environment: Environment | None,
    desk: AttemptDesk,
) -> Verdict:
    async with grading_place(job, parts, agent_environment) as env:
        return await parts.benchmark.verify(job.sample, checkpoint.submission, env, desk)


async def turn_to_grade(job: Job, parts: Parts) -> None:
    """Wait, outside every deadline, until a sandbox may be opened if one will be."""
    if parts.verification(job.task) == "fresh":
        await parts.pace.turn()


@asynccontextmanager
async def grading_place(
    job: Job, parts: Parts, agent_environment: Environment | None
) -> AsyncIterator[Environment | None]:
    """The sandbox that the task is judged in, in the phase for it; None: in none."""
    match parts.verification(job.task):
        case "none":
            yield None
        case "reuse":
            if agent_environment is not None:
                await agent_environment.enter("evaluation")
            yield agent_environment
        case "fresh":
            async with AgentSandbox(parts, job, "grade") as sandbox:
                env = await sandbox.open()
                if not parts.benchmark.prepares_grading:
                    await env.enter("evaluation")
                yield env
