"""How many attempts there were."""

from agentcompass.components.contracts.analysis import AnalyzerParameters, FinishedAttempt, Report
from agentcompass.components.contracts.protocols import Component


class Count:
    def __init__(self, parameters: AnalyzerParameters) -> None:
        self._seen = 0

    def look_at(self, attempt: FinishedAttempt) -> None:
        self._seen += 1

    def report(self) -> Report:
        return Report(numbers={"attempts": self._seen}, markdown=f"{self._seen} attempts.\n")


COMPONENT = Component(version="1", create=Count, parameters=AnalyzerParameters)
