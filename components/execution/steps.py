"""A task in steps: the agent is called for one after another, in the same sandbox."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import cast

from agentcompass.components.contracts.attempt import Submission
from agentcompass.components.contracts.errors import Code, Phase
from agentcompass.components.contracts.protocols import BenchmarkInSteps
from agentcompass.components.contracts.sandbox import Environment
from agentcompass.components.execution.collecting import checked
from agentcompass.components.execution.deadlines import deadlines, within
from agentcompass.components.execution.desk import AttemptDesk
from agentcompass.components.execution.job import Job
from agentcompass.components.execution.parts import Parts
from agentcompass.components.execution.score_stage import grading_place, turn_to_grade

CallAgent = Callable[[Job, Submission], Awaitable[tuple[Submission, bool]]]
"""A step and what the earlier ones left → all that is left now, and whether time ran out."""


async def step_by_step(
    job: Job, parts: Parts, env: Environment | None, desk: AttemptDesk, call_agent: CallAgent
) -> tuple[Submission, bool]:
    """What is left after the last step begun, and whether the agent ran out of time in any.

    Each step is judged before the next begins, and may be the last. A step that cannot be
    prepared or judged fails the attempt, with its code.
    """
    submission, timed_out, go_on = Submission(), False, True
    for sample in parts.steps(job.sample):
        step = replace(job, sample=sample)
        await _begin(step, parts, env, desk)
        submission, overran = await call_agent(step, submission)
        timed_out = timed_out or overran
        submission, go_on = await _end(step, parts, submission, env, desk)
        if not go_on:
            break
    return submission, timed_out


async def _begin(step: Job, parts: Parts, env: Environment | None, desk: AttemptDesk) -> None:
    async def prepare() -> None:
        if env is not None:
            await env.enter("baseline")
        await _in_steps(parts).begin_step(step.sample, env)
        if env is not None:
            await env.enter("run")

    with desk.in_phase(Phase.SETUP, unexpected=Code.ENVIRONMENT_SETUP):
        seconds = deadlines(step.settings, step.task).setup
        await within(seconds, Code.ENVIRONMENT_SETUP_TIMEOUT, prepare())


async def _end(
    step: Job, parts: Parts, submission: Submission, env: Environment | None, desk: AttemptDesk
) -> tuple[Submission, bool]:
    async def judge() -> tuple[Submission, bool]:
        async with grading_place(step, parts, env) as place:
            left, go_on = await _in_steps(parts).end_step(step.sample, submission, place, desk)
            return checked(left, "the benchmark's end_step"), go_on

    await turn_to_grade(step, parts)
    with desk.in_phase(Phase.SCORE, unexpected=Code.GRADER_CRASHED):
        seconds = deadlines(step.settings, step.task).score
        return await within(seconds, Code.GRADER_TIMEOUT, judge())


def _in_steps(parts: Parts) -> BenchmarkInSteps:
    return cast(BenchmarkInSteps, parts.benchmark)
