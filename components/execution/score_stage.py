"""The scoring stage: the benchmark judges a checkpoint, in the sandbox its mode asks for."""

from agentcompass.components.contracts.attempt import Checkpoint, Verdict
from agentcompass.components.contracts.errors import Code, Phase
from agentcompass.components.contracts.reward import check_verdict
from agentcompass.components.contracts.sandbox import Environment
from agentcompass.components.execution.deadlines import deadlines, within
from agentcompass.components.execution.desk import AttemptDesk
from agentcompass.components.execution.job import Job
from agentcompass.components.execution.parts import Parts


async def judge(
    job: Job,
    parts: Parts,
    checkpoint: Checkpoint,
    agent_environment: Environment | None,
    desk: AttemptDesk,
) -> Verdict:
    """A verdict with a valid reward, or an AgentCompassError that says why there is none."""
    limits = deadlines(job.settings, job.task)
    if parts.benchmark.verification == "fresh":
        await parts.pace.turn()
    with desk.in_phase(Phase.SCORE, unexpected=Code.GRADER_CRASHED):
        judging = _verify(job, parts, checkpoint, agent_environment, desk)
        verdict = await within(limits.score, Code.GRADER_TIMEOUT, judging)
        check_verdict(verdict, parts.benchmark.primary, parts.benchmark.score_range)
    return verdict


async def _verify(
    job: Job,
    parts: Parts,
    checkpoint: Checkpoint,
    agent_environment: Environment | None,
    desk: AttemptDesk,
) -> Verdict:
    benchmark, submission = parts.benchmark, checkpoint.submission
    match benchmark.verification:
        case "none":
            return await benchmark.verify(job.sample, submission, None, desk)
        case "reuse":
            return await benchmark.verify(job.sample, submission, agent_environment, desk)
        case "fresh":
            opening = parts.environments.open(job.task.requirements, job.label("grade"))
            async with opening as env:
                return await benchmark.verify(job.sample, submission, env, desk)
