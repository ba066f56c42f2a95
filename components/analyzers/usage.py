"""Tokens and money: attempts that took far more than the others, and what could not be counted."""

from typing import Annotated

from pydantic import Field

from agentcompass.components.analyzers._findings import Findings, Kind
from agentcompass.components.analyzers._numbers import outlier_limit, summary
from agentcompass.components.contracts.analysis import AnalyzerParameters, FinishedAttempt, Report
from agentcompass.components.contracts.protocols import Component
from agentcompass.components.contracts.usage import Usage

KINDS = {
    "no_model_call": Kind(
        "serious",
        "the attempt made no call to the model, though others did",
        "Find out why the agent never called the model in these attempts",
        "lost",
    ),
    "costly": Kind("warning", "cost far more than the other attempts"),
    "many_tokens": Kind("warning", "took far more tokens than the other attempts"),
    "big_step": Kind(
        "info",
        "one result made the conversation jump by many tokens",
        "Show the agent less of large outputs: single results fill the conversation",
    ),
    "wasted": Kind("info", "was paid for and has no score"),
}
_FIX_COUNTS = "Token counts are missing for {0} of {1} calls: the totals are lower bounds"
_FIX_PRICES = "Prices are unknown for {0} of {1} calls (give them in --model-params prices)"


class UsageParameters(AnalyzerParameters):
    outlier_factor: Annotated[float, Field(gt=1)] = 5
    """An attempt that took so many times the median is named."""
    outlier_attempts: Annotated[int, Field(ge=2)] = 8
    """In runs with fewer attempts none is far off."""
    big_step_tokens: Annotated[int, Field(ge=1)] = 20_000
    """A step whose prompt is so many tokens larger than the one before is named."""


class UsageOutliers:
    def __init__(self, parameters: UsageParameters) -> None:
        self._parameters = parameters
        self._findings = Findings(KINDS, parameters.examples)
        self._attempts: list[tuple[str, int, int | None, float | None]] = []
        self._silent: list[tuple[str, int]] = []
        self._total = Usage()

    def look_at(self, attempt: FinishedAttempt) -> None:
        record, key = attempt.record, attempt.record.key
        usage = record.usage
        self._total += usage
        known = (usage.input_tokens, usage.output_tokens)
        tokens = (
            sum(n for n in known if n is not None) if any(n is not None for n in known) else None
        )
        self._attempts.append((key.task_id, key.index, tokens, usage.cost_usd))
        if usage.calls == 0 and record.status == "scored":
            self._silent.append((key.task_id, key.index))
        if record.status == "unscored" and (tokens or usage.cost_usd):
            self._findings.add("wasted", attempt, _spent(tokens, usage.cost_usd))
        before: int | None = None
        for step in attempt.steps:
            now = step.metrics.prompt_tokens if step.metrics else None
            if now is None:
                continue
            if before is not None and now - before > self._parameters.big_step_tokens:
                evidence = f"prompt of {before:,} tokens, then {now:,}"
                self._findings.add("big_step", attempt, evidence, [step.step_id])
            before = now

    def report(self) -> Report:
        if self._total.calls:
            for task_id, index in self._silent:
                self._findings.add_by_key("no_model_call", task_id, index, "0 calls")
        tokens = [(t, i, None if n is None else float(n)) for t, i, n, _ in self._attempts]
        self._outliers("many_tokens", tokens, "{:,.0f} tokens")
        self._outliers("costly", [(t, i, c) for t, i, _, c in self._attempts], "${:.4f}")
        total = self._total
        unknown = []
        if total.uncounted_calls:
            unknown.append(_FIX_COUNTS.format(total.uncounted_calls, total.calls))
        if total.unpriced_calls:
            unknown.append(_FIX_PRICES.format(total.unpriced_calls, total.calls))
        numbers = {
            "tokens": summary([n for _, _, n, _ in self._attempts if n is not None]),
            "cost_usd": summary([c for _, _, _, c in self._attempts if c is not None], 6),
            "calls": total.calls,
            "uncounted_calls": total.uncounted_calls,
            "unpriced_calls": total.unpriced_calls,
        }
        return self._findings.report(numbers, "".join(f"{text}.\n" for text in unknown))

    def _outliers(self, kind: str, found: list[tuple[str, int, float | None]], shown: str) -> None:
        known = [value for _, _, value in found if value is not None]
        limits = self._parameters
        limit = outlier_limit(known, limits.outlier_factor, limits.outlier_attempts)
        if not limit:
            return
        for task_id, index, value in found:
            if value is not None and value > limit:
                median = shown.format(limit / limits.outlier_factor)
                evidence = f"{shown.format(value)}; the median is {median}"
                self._findings.add_by_key(kind, task_id, index, evidence)


def _spent(tokens: int | None, cost_usd: float | None) -> str:
    parts = [f"{tokens:,} tokens"] if tokens else []
    return ", ".join([*parts, f"${cost_usd:.4f}"] if cost_usd else parts)


COMPONENT = Component(version="1", create=UsageOutliers, parameters=UsageParameters)
