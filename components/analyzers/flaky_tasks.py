"""Tasks whose attempts disagree: the agent's luck, a flaky grader, or a flaky sandbox."""

import hashlib
from collections import Counter

from agentcompass.components.analyzers._findings import Findings, Kind
from agentcompass.components.contracts.analysis import (
    Advice,
    AnalyzerParameters,
    FinishedAttempt,
    Report,
)
from agentcompass.components.contracts.attempt import AttemptRecord, Detail
from agentcompass.components.contracts.errors import POLICIES, Owner
from agentcompass.components.contracts.protocols import Component

KINDS = {
    "grader": Kind(
        "serious",
        "the same submission was judged differently",
        "Repair or leave out the tasks whose grader judges the same submission differently "
        "(agentcompass validate BENCHMARK --repeats 10)",
        "lost",
    ),
    "retried": Kind(
        "warning",
        "attempts had to be made again",
        "See why attempts had to be made again",
    ),
    "disagree": Kind("info", "some attempts succeeded and some did not"),
}


_AT_FAULT = {
    Owner.ENVIRONMENT: "the sandboxes are",
    Owner.MODEL: "the way to the model is",
    Owner.GRADER: "the graders are",
    Owner.FRAMEWORK: "AgentCompass or what it needs is",
    Owner.AGENT: "the agent is",
}


class FlakyTasksParameters(AnalyzerParameters):
    """A task is looked at as soon as it has two scored attempts; there is nothing to tune."""


class FlakyTasks:
    def __init__(self, parameters: FlakyTasksParameters) -> None:
        self._findings = Findings(KINDS, parameters.examples)
        self._last: str | None = None
        self._judged = self._mixed = 0
        self._at_fault: Counter[Owner] = Counter()

    def look_at(self, attempt: FinishedAttempt) -> None:
        if attempt.record.earlier_failures:
            codes = ", ".join(note.code for note in attempt.record.earlier_failures)
            self._findings.add("retried", attempt, f"after {codes}")
            self._at_fault.update(
                {POLICIES[note.code].owner for note in attempt.record.earlier_failures}
            )
        if attempt.task_id != self._last:  # a task's attempts follow one another
            self._last = attempt.task_id
            self._look_at_task(attempt, attempt.detail)

    def report(self) -> Report:
        report = self._findings.report(
            {"tasks_with_several_scored_attempts": self._judged, "tasks_that_disagree": self._mixed}
        )
        return report.model_copy(update={"advice": tuple(map(self._named, report.advice))})

    def _named(self, advice: Advice) -> Advice:
        """With whose fault it was that attempts were made again, the most frequent first."""
        if advice.action != KINDS["retried"].action:
            return advice
        owners = sorted(self._at_fault, key=lambda owner: (-self._at_fault[owner], owner))
        causes = ", ".join(f"{_AT_FAULT[owner]} not steady" for owner in owners)
        return advice.model_copy(update={"action": f"{advice.action}: {causes}"})

    def _look_at_task(self, attempt: FinishedAttempt, detail: Detail) -> None:
        scored = [record for record in detail.attempts if record.value is not None]
        if len(scored) < 2:
            return
        self._judged += 1
        values = [record.value or 0.0 for record in scored]
        if len(set(values)) > 1:
            self._mixed += 1
            shown = ", ".join(f"#{r.key.index}: {r.value:g}" for r in scored)
            self._findings.add("disagree", attempt, shown, whole_task=True)
        by_content: dict[str, list[AttemptRecord]] = {}
        for record in scored:
            if (content := _content(record)) is not None:
                by_content.setdefault(content, []).append(record)
        for same in by_content.values():
            if len({record.value for record in same}) > 1:
                shown = ", ".join(f"#{r.key.index}: {r.value:g}" for r in same)
                self._findings.add("grader", attempt, f"same submission, {shown}", whole_task=True)
                return


def _content(record: AttemptRecord) -> str | None:
    """A mark of what was judged; None if nothing was left to judge."""
    submission = record.submission
    if submission is None:
        return None
    files = sorted((artifact.path, artifact.sha256) for artifact in submission.artifacts)
    answer = (submission.answer or "").strip()
    # With files the answer is the agent's closing words, which no two attempts share.
    parts = repr(files) if files else answer
    return hashlib.sha256(parts.encode("utf-8", "replace")).hexdigest() if parts else None


COMPONENT = Component(version="2", create=FlakyTasks, parameters=FlakyTasksParameters)
