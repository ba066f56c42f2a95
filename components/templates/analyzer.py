"""An example: answers that were given without running a single command."""

from agentcompass.components.contracts.analysis import (
    AnalyzerParameters,
    Finding,
    FinishedAttempt,
    Report,
)
from agentcompass.components.contracts.protocols import Component


class ExampleParameters(AnalyzerParameters):
    """Each field is a key of `analyzers.example` in a configuration file."""

    least_steps: int = 1
    """An attempt with fewer steps of the agent that call a tool is a finding."""


class Example:
    """Sees each finished attempt once; keeps what it found, not what it saw."""

    def __init__(self, parameters: ExampleParameters) -> None:
        self._parameters = parameters
        self._seen = 0
        self._found: list[Finding] = []

    def look_at(self, attempt: FinishedAttempt) -> None:
        self._seen += 1
        count = sum(bool(step.tool_calls) for step in attempt.steps)
        if count >= self._parameters.least_steps:
            return
        self._found.append(
            Finding(
                kind="no_tools",
                task_id=attempt.task_id,
                attempt=attempt.record.key.index,
                evidence=f"{count} of {len(attempt.steps)} steps call a tool",
                severity="info",
            )
        )

    def report(self) -> Report:
        """Findings and numbers for machines; Markdown for people."""
        return Report(
            findings=tuple(self._found),
            numbers={"attempts": self._seen, "without_tools": len(self._found)},
            markdown=f"{len(self._found)} of {self._seen} attempts ran no command.\n",
        )


COMPONENT = Component(version="1", create=Example, parameters=ExampleParameters)
