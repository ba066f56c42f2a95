"""From what the verifier left to a verdict, with the tests as its evidence."""

from collections.abc import Iterator
from dataclasses import dataclass

from agentcompass.components.benchmarks._harbor.rewards import (
    SHOWN_TESTS,
    Report,
    bootstrap_failure,
    read_report,
    read_rewards,
)
from agentcompass.components.benchmarks._harbor.tampering import Tampering
from agentcompass.components.benchmarks._harbor.verifier import Graded
from agentcompass.components.contracts.attempt import Evidence, Verdict
from agentcompass.components.contracts.errors import AgentCompassError, Code
from agentcompass.components.contracts.task import Primary

SHOWN_OUTPUT = 6000


@dataclass(frozen=True)
class Terms:
    """What a reward means."""

    key: str = "reward"
    score_range: tuple[float, float] = (0.0, 1.0)
    report_agrees: bool = False
    """Full reward stands only on a report of tests of which none failed."""

    def worthless(self, primary: Primary, tampering: Tampering) -> Verdict:
        """The grader's own programs were replaced: nothing it said would count."""
        evidence = tuple(_planted(tampering))
        if primary == "correct":
            return Verdict(correct=False, evidence=evidence)
        return Verdict(score=self.score_range[0], evidence=evidence)


def verdict_of(
    graded: Graded, tampering: Tampering, script: str, primary: Primary, terms: Terms
) -> Verdict:
    """Raises grader.crashed (no test ever ran), grader.invalid_reward."""
    report = read_report(graded.files)
    failure = bootstrap_failure(graded.output, script, report)
    rewards: dict[str, float] = {}
    if not graded.findings or _has_reward(graded):
        try:
            rewards = read_rewards(graded.files, terms.key)
        except AgentCompassError:
            if failure is None:
                raise
    reward = rewards.get(terms.key)
    if failure is not None and (reward is None or reward <= terms.score_range[0]):
        raise AgentCompassError(
            Code.GRADER_CRASHED, f"the verifier could not start its tests: {failure}"
        )
    evidence = (*_planted(tampering), *_of(graded, report))
    if reward is None:
        # The reward that stands there was not the verifier's.
        return _verdict(primary, terms.score_range[0], {}, evidence)
    if terms.report_agrees and reward == 1 and (report.failed or not report.passed):
        what = f"{report.failed} tests failed" if report.failed else "no report says so"
        raise AgentCompassError(Code.GRADER_INVALID_REWARD, f"the reward is 1, but {what}")
    metrics = {name: value for name, value in rewards.items() if name != terms.key}
    return _verdict(primary, reward, metrics, evidence)


def _verdict(
    primary: Primary, reward: float, metrics: dict[str, float], evidence: tuple[Evidence, ...]
) -> Verdict:
    if primary == "correct":
        return Verdict(
            correct=reward == 1, metrics={**metrics, "reward": reward}, evidence=evidence
        )
    return Verdict(score=reward, metrics={**metrics}, evidence=evidence)


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
