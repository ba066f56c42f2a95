"""Graders that return a reward: a finite number in its range, or the grader's own fault."""

import asyncio

import pytest

from agentcompass.components.benchmarks._judge import Judgement, judge_grade
from agentcompass.components.benchmarks.quickstart_score import graded
from agentcompass.components.contracts.errors import AgentCompassError, Code
from agentcompass.components.contracts.reward import check_verdict
from tests.components.benchmarks.sandboxes import sandbox


@pytest.mark.parametrize(
    ("returned", "score"),
    [("1", 1.0), ("0.5", 0.5), ("True", 1.0), ("0", 0.0), ("1/3", 1 / 3)],
)
def test_a_reward_is_a_finite_number(returned: str, score: float) -> None:
    assert reward(returned) == score


@pytest.mark.parametrize(
    "returned",
    [
        "'0.5'",
        "float('nan')",
        "float('inf')",
        "''",
        "{}",
        "{'a': 1}",
        "None",
        "-1",
        "2",
        "object()",
    ],
)
def test_any_other_reward_is_refused_by_name(returned: str) -> None:
    with pytest.raises(AgentCompassError) as failed:
        reward(returned)
    assert failed.value.code is Code.GRADER_INVALID_REWARD


def reward(returned: str) -> float | None:
    async def judge() -> float | None:
        async with sandbox() as env:
            verdict = await graded(env, f"def grade():\n    return {returned}\n", 20)
            check_verdict(verdict, "score", (0.0, 1.0))
            return verdict.score

    return asyncio.run(judge())


def test_a_submission_that_ends_or_hangs_scores_0_and_a_broken_grader_none() -> None:
    async def judge(tests: str) -> Judgement:
        async with sandbox() as env:
            await env.write_file("bad.py", b"import os\nos._exit(0)\n")
            return await judge_grade(env, tests, 20)

    assert asyncio.run(judge("def grade():\n    return call('bad.x')\n")).reward == b"0"
    with pytest.raises(AgentCompassError, match="grade\\(\\) failed") as failed:
        asyncio.run(judge("def grade():\n    return 1 / 0\n"))
    assert failed.value.code is Code.GRADER_CRASHED
