"""Why attempts failed: by owner and code, with messages that stand for many."""

from collections import Counter, defaultdict
from dataclasses import dataclass, field

from agentcompass.components.analyzers._findings import counted, described, one_line
from agentcompass.components.contracts.analysis import (
    Advice,
    AnalyzerParameters,
    Finding,
    FinishedAttempt,
    Report,
    Weight,
)
from agentcompass.components.contracts.attempt import Note
from agentcompass.components.contracts.errors import POLICIES, Code, Owner, Severity
from agentcompass.components.contracts.protocols import Component

ADVICE = {
    Owner.ENVIRONMENT: "Repair the sandboxes",
    Owner.MODEL: "Repair the way to the model",
    Owner.GRADER: "Repair the graders",
    Owner.FRAMEWORK: "See what stopped AgentCompass",
}
"""For failures that left attempts without a score; whose fault it was says where to look."""
OFTEN = {
    Code.SUBMISSION_EMPTY: "See why attempts leave nothing to grade",
    Code.HARNESS_CRASHED: "See why the agent crashes",
    Code.MODEL_CONTENT_FILTER: "See why the provider filters replies",
}
"""For what is graded all the same, where at least half of the attempts met it; of the limits and
the reply format other analyzers speak."""
AFTER = "then go on with --reuse: scored attempts are kept"
_WEIGHTS: dict[Severity, Weight] = {
    Severity.WARNING: "info",
    Severity.ERROR: "serious",
    Severity.FATAL: "serious",
}


class FailuresParameters(AnalyzerParameters):
    """Codes, owners and what they mean are in docs/errors.md."""


@dataclass
class _Met:
    """What is known of one code."""

    findings: list[Finding] = field(default_factory=list)
    messages: Counter[str] = field(default_factory=Counter)
    """Without digits, so that messages that differ in a number count as one."""
    examples: dict[str, Finding] = field(default_factory=dict)
    earlier_tries: int = 0
    """It failed so many tries that were made or judged again."""


class Failures:
    def __init__(self, parameters: FailuresParameters) -> None:
        self._examples = parameters.examples
        self._met: dict[Code, _Met] = defaultdict(_Met)
        self._attempts = 0

    def look_at(self, attempt: FinishedAttempt) -> None:
        record = attempt.record
        self._attempts += 1
        failure = [record.failure] if record.failure else []
        for note in {note.code: note for note in [*record.notes, *failure]}.values():
            self._meet(attempt, note)
        for note in record.earlier_failures:
            self._met[note.code].earlier_tries += 1

    def _meet(self, attempt: FinishedAttempt, note: Note) -> None:
        met = self._met[note.code]
        finding = Finding(
            kind=note.code,
            task_id=attempt.task_id,
            attempt=attempt.record.key.index,
            evidence=one_line(note.message),
            severity="info" if attempt.earlier_try else _WEIGHTS[POLICIES[note.code].severity],
            earlier_try=attempt.earlier_try,
        )
        met.findings.append(finding)
        shape = "".join("0" if c.isdigit() else c for c in note.message[:200])
        if shape in met.messages or len(met.messages) < 1_000:
            met.messages[shape] += 1
            met.examples.setdefault(shape, finding)

    def report(self) -> Report:
        ordered = sorted(self._met.items(), key=lambda item: (-len(item[1].findings), item[0]))
        return Report(
            findings=tuple(finding for _, met in ordered for finding in met.findings),
            numbers={
                "attempts": self._attempts,
                "codes": {code: self._code(code, met) for code, met in ordered},
            },
            advice=tuple(
                _advice(code, met) if not POLICIES[code].graded else self._often(code, met)
                for code, met in ordered
                if met.findings and (not POLICIES[code].graded or self._is_often(code, met))
            ),
            markdown=self._markdown(ordered),
        )

    def _is_often(self, code: Code, met: _Met) -> bool:
        return code in OFTEN and 2 * len(met.findings) >= self._attempts

    def _often(self, code: Code, met: _Met) -> Advice:
        shape, _ = met.messages.most_common(1)[0]
        return Advice(
            action=OFTEN[code],
            reason=f"{counted(met.findings)} of {self._attempts}: "
            f"{POLICIES[code].meaning} (`{code}`), such as {described(met.examples[shape])}",
            attempts=_attempts(met),
            stake="lost",
        )

    def _code(self, code: Code, met: _Met) -> dict[str, object]:
        policy = POLICIES[code]
        return {
            "owner": policy.owner,
            "severity": policy.severity,
            "attempts": len(met.findings),
            "earlier_tries": met.earlier_tries,
            "messages": [
                {"attempts": count, "message": met.examples[shape].evidence}
                for shape, count in met.messages.most_common(max(1, self._examples))
            ],
        }

    def _markdown(self, ordered: list[tuple[Code, _Met]]) -> str:
        if not ordered:
            return (
                f"None of {self._attempts} attempts met a failure or a warning. A wrong answer is "
                "neither: its evidence stands in the task's detail.json.\n"
            )
        lines = [
            f"Of {self._attempts} attempts:",
            "",
            "| owner | code | attempts | earlier tries | counts | meaning |",
            "| - | - | - | - | - | - |",
        ]
        rows = [(owner, code, met) for owner in Owner for code, met in ordered
                if POLICIES[code].owner is owner]  # fmt: skip
        for owner, code, met in rows:
            policy = POLICIES[code]
            counts = "yes" if policy.graded else "no score"
            lines.append(
                f"| {owner} | `{code}` | {len(met.findings)} | {met.earlier_tries} | {counts} "
                f"| {policy.meaning} |"
            )
        lines.append("")
        for _, code, met in rows:
            if met.findings:
                lines.append(f"- `{code}`")
            for shape, count in met.messages.most_common(self._examples):
                lines.append(f"  - {count} × such as {described(met.examples[shape])}")
        return "\n".join(lines) + "\n"


def _advice(code: Code, met: _Met) -> Advice:
    policy = POLICIES[code]
    what = ADVICE.get(policy.owner, "See what went wrong")
    shape, _ = met.messages.most_common(1)[0]
    return Advice(
        action=f"{what} ({policy.meaning}), {AFTER}",
        reason=f"{counted(met.findings)} without a score, `{code}`, such as "
        + described(met.examples[shape]),
        attempts=_attempts(met),
        stake="lost",
    )


def _attempts(met: _Met) -> tuple[tuple[str, int | None], ...]:
    return tuple((finding.task_id, finding.attempt) for finding in met.findings)


COMPONENT = Component(version="4", create=Failures, parameters=FailuresParameters)
