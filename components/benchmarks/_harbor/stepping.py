"""Steps of a task: what one brings when it begins, when the next may begin, and the roll-up.

As in Harbor: `min_reward` is a bound for `reward`, or for each reward it names, and one that is
missing has missed it. The reward of the task is the mean over the steps that were graded, for
each name (one that a step does not have counts 0), or with `final` that of the last one graded.
"""

from collections.abc import Sequence
from pathlib import PurePosixPath

from agentcompass.components.benchmarks._harbor.grading import Seen, look_over, take_over
from agentcompass.components.benchmarks._harbor.judging import Grade, Terms
from agentcompass.components.benchmarks._harbor.preparation import become_healthy
from agentcompass.components.benchmarks._harbor.rounds import Round
from agentcompass.components.benchmarks._harbor.task_config import TaskConfig
from agentcompass.components.contracts.attempt import Evidence
from agentcompass.components.contracts.errors import AgentCompassError, Code
from agentcompass.components.contracts.sandbox import Environment

SETUP = "setup.sh"


async def begin(one: Round, env: Environment, seen: Seen) -> None:
    """Its files into the workdir, its setup.sh, its health. Raises environment.setup."""
    assert one.step is not None
    brought = one.own / "workdir"
    if brought.is_dir():
        before = await look_over(env, seen.root, seen.boxes)
        await env.upload(brought, env.workdir)
        files: frozenset[str] | None = None
        if (brought / SETUP).is_file():
            await _set_up(one, env)
        else:
            names = (path.relative_to(brought) for path in brought.rglob("*") if path.is_file())
            files = frozenset(str(PurePosixPath(env.workdir, name)) for name in names)
        after = await look_over(env, seen.root, seen.boxes)
        await take_over(env, seen, before, after, files)
    if one.step.healthcheck is not None:
        await become_healthy(env, one.step.healthcheck)


async def _set_up(one: Round, env: Environment) -> None:
    done = await env.exec(["bash", f"{env.workdir.rstrip('/')}/{SETUP}"])
    if not done.ok:
        last = (done.stderr.strip() or done.stdout.strip() or "no output").splitlines()[-1]
        raise AgentCompassError(
            Code.ENVIRONMENT_SETUP,
            f"{SETUP} of step {one.id} ended with {done.exit_code}: {last[:300]}",
        )


def shortfall(one: Round, grade: Grade) -> str:
    """Which reward is too low for the next step to begin; empty: none is."""
    for name, bound in one.min_rewards.items():
        reward = grade.rewards.get(name)
        if reward is None or reward < bound:
            told = "none" if reward is None else f"{reward:g}"
            return f"{name} is {told}, below {bound:g}"
    return ""


def rolled_up(config: TaskConfig, grades: Sequence[Grade], terms: Terms) -> Grade:
    """The task's grade. Raises grader.invalid_reward when no step gave the reward that counts."""
    names = sorted({name for grade in grades for name in grade.rewards})
    if terms.key not in names:
        raise AgentCompassError(
            Code.GRADER_INVALID_REWARD, f"no step gave {terms.key!r}; there: {', '.join(names)}"
        )
    if config.multi_step_reward_strategy == "final":
        rewards = {terms.key: 0.0, **grades[-1].rewards}
    else:
        rewards = {
            name: sum(grade.rewards.get(name, 0.0) for grade in grades) / len(grades)
            for name in names
        }
    evidence: list[Evidence] = []
    for step, grade in zip(config.steps, grades, strict=False):
        told = ", ".join(f"{name} {reward:g}" for name, reward in grade.rewards.items())
        evidence.append(Evidence(name=f"step {step.name}", text=told))
        evidence += [
            one.model_copy(update={"name": f"{step.name}: {one.name}"}) for one in grade.evidence
        ]
    for step in config.steps[len(grades) :]:
        evidence.append(Evidence(name=f"step {step.name}", passed=False, text="not begun"))
    return Grade(rewards={**rewards, "steps_graded": float(len(grades))}, evidence=tuple(evidence))
