"""Replies cut off at the token limit, and conversations that outgrew the model."""

from agentcompass.components.analyzers._findings import Findings, Kind
from agentcompass.components.contracts.analysis import AnalyzerParameters, FinishedAttempt, Report
from agentcompass.components.contracts.errors import Code
from agentcompass.components.contracts.protocols import Component
from agentcompass.components.contracts.trajectory import Step

_RAISE = "Raise max_tokens in --model-params, or ask for shorter replies: answers were cut off"
KINDS = {
    "last_reply": Kind(
        "serious", "the last reply was cut off: the answer may be incomplete", _RAISE, "lost"
    ),
    "context_window": Kind(
        "serious",
        "the conversation outgrew the model's context window",
        "Show the agent less (observation_limit_chars, output_limit_kb), or use a model with a "
        "longer context",
        "lost",
    ),
    "reply": Kind("warning", "a reply was cut off, and the agent went on", _RAISE, "lost"),
}
_CUT_OFF = frozenset(["length", "max_tokens", "max_output_tokens", "model_length", "incomplete"])


class TruncationParameters(AnalyzerParameters):
    """How a reply ended is what the endpoint said; there is nothing to tune."""


class Truncation:
    def __init__(self, parameters: TruncationParameters) -> None:
        self._findings = Findings(KINDS, parameters.examples)
        self._replies = 0

    def look_at(self, attempt: FinishedAttempt) -> None:
        record = attempt.record
        for note in record.notes:
            if note.code is Code.MODEL_CONTEXT_WINDOW:
                self._findings.add("context_window", attempt, note.message)
        steps = [step for step in attempt.steps if step.source == "agent"]
        self._replies += len(steps)
        cut = [step for step in steps if _is_cut(step)]
        stopped = record.submission is not None and record.submission.stop_reason == "length"
        for step in cut:
            last = step is steps[-1]
            self._findings.add(
                "last_reply" if last else "reply", attempt, _end(step), [step.step_id]
            )
        if stopped and not cut:
            self._findings.add(
                "last_reply", attempt, "the harness says so", [s.step_id for s in steps[-1:]]
            )

    def report(self) -> Report:
        return self._findings.report({"replies": self._replies})


def _is_cut(step: Step) -> bool:
    extra = step.extra or {}
    reasons = [extra.get(name) for name in ("finish_reason", "stop_reason", "finishReason")]
    return any(isinstance(reason, str) and reason.lower() in _CUT_OFF for reason in reasons)


def _end(step: Step) -> str:
    text = step.message.strip() or (step.reasoning_content or "").strip()
    tokens = step.metrics.completion_tokens if step.metrics else None
    size = f"after {tokens} tokens" if tokens is not None else "at the token limit"
    return f"ends {size} with: …{text[-120:]}" if text else f"ends {size} without a text"


COMPONENT = Component(version="1", create=Truncation, parameters=TruncationParameters)
