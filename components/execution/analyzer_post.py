"""One analyzer at work, once for the attempts and once for each number of earlier tries.

An analyzer counts, compares and sums what it is shown. Tries that do not count must not mix with
attempts that do, nor two tries of one attempt with each other: each number of a try has an
instance of its own, so that no analyzer has to think of it.
"""

from typing import cast

from pydantic import BaseModel

from agentcompass.components.analyzers._findings import described
from agentcompass.components.contracts.analysis import Advice, Finding, FinishedAttempt, Report
from agentcompass.components.contracts.protocols import Analyzer, Component
from agentcompass.components.registry import registry


class AnalyzerPost:
    def __init__(self, name: str, component: Component, values: BaseModel) -> None:
        self.name = name
        self._component, self._values = component, values
        self._analyzer = self._made()
        self._of_tries: dict[int, Analyzer] = {}
        self._leaves_tries = False

    def look_at(self, attempt: FinishedAttempt) -> None:
        self._analyzer.look_at(attempt)

    def look_at_earlier_try(self, attempt: FinishedAttempt) -> None:
        number = attempt.earlier_try
        assert number is not None
        if self._leaves_tries:
            return
        if number not in self._of_tries:
            self._of_tries[number] = self._made()
        self._of_tries[number].look_at(attempt)

    def leave_earlier_tries(self) -> None:
        """Neither look at further ones nor report of them."""
        self._leaves_tries = True
        self._of_tries.clear()

    def report(self) -> Report:
        """Of the attempts."""
        return self._analyzer.report()

    def with_earlier_tries(self, report: Report) -> Report:
        """The same, and what was found in tries that do not count; the numbers are without them.

        They cost no points. Of the advice only what is urgent holds for them, too.
        """
        findings: list[Finding] = []
        advice: list[Advice] = []
        for number, analyzer in sorted(self._of_tries.items()):
            found = analyzer.report()
            findings += (
                finding.model_copy(update={"earlier_try": number}) for finding in found.findings
            )
            advice += (one for one in found.advice if one.urgent)
        if not findings and not advice:
            return report
        return report.model_copy(
            update={
                "findings": (*report.findings, *findings),
                "advice": (*report.advice, *advice),
                "markdown": "\n".join(filter(None, (report.markdown, self._lines(findings)))),
            }
        )

    def _lines(self, findings: list[Finding]) -> str:
        lines = ["In earlier tries, which do not count:", ""]
        by_kind: dict[str, list[Finding]] = {}
        for finding in findings:
            by_kind.setdefault(finding.kind, []).append(finding)
        most = getattr(self._values, "examples", 3)
        for kind, found in by_kind.items():
            tries = "1 try" if len(found) == 1 else f"{len(found)} tries"
            lines.append(f"- **{tries}: `{kind}`** ({found[0].severity})")
            lines += [f"  - {described(finding)}" for finding in found[:most]]
            if most and len(found) > most:
                lines.append(f"  - … and {len(found) - most} more")
        return "\n".join(lines) + "\n"

    def _made(self) -> Analyzer:
        made = registry.create("analyzers", self.name, self._component, self._values)
        return cast(Analyzer, made)
