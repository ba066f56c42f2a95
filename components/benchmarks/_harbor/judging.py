"""From what the verifier left to a verdict, with the tests as its evidence."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from agentcompass.components.benchmarks._harbor.bootstrap import bootstrap_failure, misses
from agentcompass.components.benchmarks._harbor.rewards import (
    SHOWN_TESTS,
    Report,
    read_report,
    read_rewards,
)
from agentcompass.components.benchmarks._harbor.tampering import Tampering
from agentcompass.components.benchmarks._harbor.verifier import Graded
from agentcompass.components.contracts.attempt import Evidence, Verdict
from agentcompass.components.contracts.errors import AgentCompassError, Code
from agentcompass.components.contracts.frozen import Frozen
from agentcompass.components.contracts.task import Primary

SHOWN_OUTPUT = 6000


@dataclass(frozen=True)
class Terms:
    """What a reward means."""

    key: str = "reward"
    score_range: tuple[float, float] = (0.0, 1.0)
    report_agrees: bool = False
    """Full reward stands only on a report of tests of which none failed."""


class Grade(Frozen):
    """What one grading says."""

    rewards: Mapping[str, float]
    evidence: tuple[Evidence, ...]


def worthless(tampering: Tampering, terms: Terms) -> Grade:
    """The grader's own programs were replaced: nothing it said would count."""
    return Grade(rewards={terms.key: terms.score_range[0]}, evidence=tuple(_planted(tampering)))


def grade_of(
    graded: Graded,
    tampering: Tampering,
    script: str,
    terms: Terms,
    *,
    any_key: bool = False,
    workdir: str = "/",
) -> Grade:
    """`any_key`: the reward that counts need not be among them.

    Raises grader.setup (no test ever ran), grader.invalid_reward.
    """
    report = read_report(graded.files)
    failure = bootstrap_failure(graded.output, script, report, workdir=workdir, gone=tampering.gone)
    rewards: dict[str, float] = {}
    if not graded.findings or _has_reward(graded):
        try:
            rewards = read_rewards(graded.files, terms.key, any_key=any_key)
        except AgentCompassError:
            if failure is None and not misses(graded.output, tampering.gone):
                raise
    lowest = terms.score_range[0]
    best = rewards.get(terms.key, max(rewards.values(), default=lowest))
    if failure is not None and best <= lowest:
        raise AgentCompassError(
            Code.GRADER_SETUP, f"the verifier could not start its tests: {failure}"
        )
    _check_range(rewards.get(terms.key), terms.score_range)
    # Without any, the reward that stands there was not the verifier's.
    rewards = rewards or {terms.key: lowest}
    if terms.report_agrees and rewards.get(terms.key) == 1 and (report.failed or not report.passed):
        what = f"{report.failed} tests failed" if report.failed else "no report says so"
        raise AgentCompassError(Code.GRADER_INVALID_REWARD, f"the reward is 1, but {what}")
    return Grade(rewards=rewards, evidence=(*_planted(tampering), *_of(graded, report)))


def _check_range(reward: float | None, score_range: tuple[float, float]) -> None:
    """On arrival: a step's mean with others may be in range, and `correct` has none."""
    low, high = score_range
    if reward is not None and not low <= reward <= high:
        raise AgentCompassError(
            Code.GRADER_INVALID_REWARD, f"the reward {reward:g} is outside {low:g}..{high:g}"
        )


def verdict_of(grade: Grade, primary: Primary, terms: Terms) -> Verdict:
    reward = grade.rewards[terms.key]
    metrics = {name: value for name, value in grade.rewards.items() if name != terms.key}
    if primary == "correct":
        metrics["reward"] = reward
        return Verdict(correct=reward == 1, metrics=metrics, evidence=grade.evidence)
    return Verdict(score=reward, metrics=metrics, evidence=grade.evidence)


def _has_reward(graded: Graded) -> bool:
    return any(name in graded.files for name in ("reward.json", "reward.txt"))


def _planted(tampering: Tampering) -> Iterator[Evidence]:
    for line in tampering.findings:
        yield Evidence(name="tampering", passed=False, text=line)
    for path in tampering.replaced:
        yield Evidence(
            name="tampering", passed=False, text=f"{path} was replaced: its word counts for nothing"
        )


def _of(graded: Graded, report: Report) -> Iterator[Evidence]:
    for line in graded.findings:
        yield Evidence(name="tampering", passed=False, text=line)
    yield from report.tests[:SHOWN_TESTS]
    if graded.ended:
        yield Evidence(name="ended before grading", text=", ".join(graded.ended)[:1000])
    if graded.left_running:
        yield Evidence(name="left running", text=", ".join(graded.left_running)[:1000])
    text = graded.output.replace("\0", "\ufffd").strip()
    if len(text) > SHOWN_OUTPUT:
        text = "…" + text[-SHOWN_OUTPUT:]
    yield Evidence(name=f"test.sh (exit code {graded.exit_code})", text=text)
