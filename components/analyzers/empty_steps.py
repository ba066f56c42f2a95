"""Replies that do nothing: no text and no tool call, or nothing but reasoning."""

from itertools import zip_longest
from typing import Annotated

from pydantic import Field

from agentcompass.components.analyzers._findings import Findings, Kind
from agentcompass.components.contracts.analysis import AnalyzerParameters, FinishedAttempt, Report
from agentcompass.components.contracts.protocols import Component
from agentcompass.components.contracts.trajectory import Step

KINDS = {
    "empty_answer": Kind(
        "serious",
        "the last reply is empty: there is no answer",
        "Find out why the model's last replies are empty (chat template, max_tokens, filter)",
        "lost",
    ),
    "reasoning_only": Kind(
        "warning",
        "a reply held reasoning and neither text nor a tool call",
        "See whether the answer stands in the reasoning: the endpoint's reasoning parser or the "
        "chat template may be wrong, or max_tokens too low",
        "lost",
    ),
    "empty": Kind(
        "warning",
        "a reply was empty, and the agent went on",
        "Find out why replies are empty (chat template, max_tokens, content filter)",
        "lost",
    ),
}


class EmptyStepsParameters(AnalyzerParameters):
    least: Annotated[int, Field(ge=1)] = 1
    """Attempts with fewer such replies are not named; an empty last reply always is."""


class EmptySteps:
    def __init__(self, parameters: EmptyStepsParameters) -> None:
        self._least = parameters.least
        self._findings = Findings(KINDS, parameters.examples)

    def look_at(self, attempt: FinishedAttempt) -> None:
        steps = attempt.steps
        agent = [step for step in steps if step.source == "agent"]
        found: dict[str, list[Step]] = {"empty": [], "reasoning_only": []}
        for step, following in zip_longest(steps, steps[1:]):
            if step.source != "agent" or step.message.strip() or step.tool_calls:
                continue
            if step.observation is not None:  # a result some converters give a step of its own
                continue
            if not (step.reasoning_content or "").strip():
                found["empty"].append(step)
            elif following is None or following.source != "agent":
                # Followed by another agent step it is one part of a reply that was split.
                found["reasoning_only"].append(step)
        if found["empty"] and found["empty"][-1] is agent[-1] and not _answered(attempt):
            last = found["empty"].pop()
            self._findings.add("empty_answer", attempt, _how(last), [last.step_id])
        for kind, empty in found.items():
            if len(empty) >= self._least:
                evidence = (empty[0].reasoning_content or "").strip() or _how(empty[0])
                self._findings.add(kind, attempt, evidence, [step.step_id for step in empty])

    def report(self) -> Report:
        return self._findings.report()


def _answered(attempt: FinishedAttempt) -> bool:
    submission = attempt.record.submission
    return submission is not None and bool((submission.answer or "").strip())


def _how(step: Step) -> str:
    reason = (step.extra or {}).get("finish_reason")
    tokens = step.metrics.completion_tokens if step.metrics else None
    return f"finish reason {reason}, {'unknown' if tokens is None else tokens} output tokens"


COMPONENT = Component(version="1", create=EmptySteps, parameters=EmptyStepsParameters)
