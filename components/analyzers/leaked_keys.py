"""Keys and passwords in trajectories and answers. None is repeated here: four characters are shown.

The run's own keys are masked at every write; where that mask stands beside the name of a key, the
agent could read it all the same.
"""

import re
from collections.abc import Iterator

from agentcompass.components.analyzers._findings import Findings, Kind
from agentcompass.components.analyzers._keys import keys
from agentcompass.components.contracts.analysis import AnalyzerParameters, FinishedAttempt, Report
from agentcompass.components.contracts.protocols import Component
from agentcompass.components.contracts.trajectory import Step

KINDS = {
    "own_key": Kind(
        "serious",
        "the agent saw a key of this run (masked in the records)",
        "Rotate the keys the agent could read, and keep them out of its sandbox",
        urgent=True,
    ),
    "key": Kind(
        "serious",
        "something that looks like a live key stands in the records",
        "Rotate the keys that stand in the trajectories, and do not share the records before",
        urgent=True,
    ),
}
_MASKED = re.compile(
    r"(?i)\b\w{0,40}?(?:key|token|secret|password|passwd|credential)s?[\"']?\s{0,4}[:=]\s{0,4}"
    r"[\"']?\*\*\*(?!\*)"
    r"|\bbearer \*\*\*(?!\*)"
)
_LONGEST = 500_000


class LeakedKeysParameters(AnalyzerParameters):
    ignore: tuple[str, ...] = ()
    """Texts that mark a find as harmless, such as the prefix of a task's own dummy keys."""


class LeakedKeys:
    def __init__(self, parameters: LeakedKeysParameters) -> None:
        self._ignore = parameters.ignore
        self._findings = Findings(KINDS, parameters.examples)

    def look_at(self, attempt: FinishedAttempt) -> None:
        for step in attempt.steps:
            if step.source == "system":
                continue
            for place, text in _texts(step):
                self._search(attempt, place, text, [step.step_id])
        submission = attempt.record.submission
        if submission is not None and submission.answer:
            self._search(attempt, "the answer", submission.answer, [])

    def report(self) -> Report:
        return self._findings.report()

    def _search(self, attempt: FinishedAttempt, place: str, text: str, steps: list[int]) -> None:
        text = text[:_LONGEST]
        if place == "result" and "***" in text and (masked := _MASKED.search(text)):
            self._findings.add("own_key", attempt, f"in a result: {masked.group()}", steps)
        for found in keys(text):
            if not any(word in found for word in self._ignore):
                self._findings.add("key", attempt, f"in {place}: {found[:4]}…", steps)
                return


def _texts(step: Step) -> Iterator[tuple[str, str]]:
    yield "the task" if step.source == "user" else "a message", step.message
    if step.reasoning_content:
        yield "the reasoning", step.reasoning_content
    for call in step.tool_calls or ():
        for value in call.arguments.values():
            yield "a call", value if isinstance(value, str) else str(value)
    for result in step.observation.results if step.observation else ():
        yield "result", result.content or ""


COMPONENT = Component(version="3", create=LeakedKeys, parameters=LeakedKeysParameters)
