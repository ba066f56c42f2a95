"""Attempts that ended at a limit: steps, tokens, money or time."""

from collections import Counter

from agentcompass.components.analyzers._findings import Findings, Kind
from agentcompass.components.contracts.analysis import AnalyzerParameters, FinishedAttempt, Report
from agentcompass.components.contracts.errors import Code
from agentcompass.components.contracts.protocols import Component


def _kind(what: str, advice: str) -> Kind:
    return Kind("warning", f"the agent ran out of {what}", advice, "lost")


KINDS = {
    "steps": _kind("steps", "Raise step_limit in --harness-params, if the benchmark allows more"),
    "time": _kind("time", "Raise run_timeout_seconds in --execution-params, if it may take longer"),
    "tokens": _kind("tokens", "Raise token_limit in --harness-params, if it may take more"),
    "cost": _kind("money", "Raise cost_limit in --harness-params, if it may cost more"),
}
_CODES = {
    Code.HARNESS_STEP_LIMIT: "steps",
    Code.HARNESS_TIMEOUT: "time",
    Code.HARNESS_TOKEN_LIMIT: "tokens",
    Code.HARNESS_COST_LIMIT: "cost",
}
_STOP_REASONS = {
    "step_limit": "steps",
    "max_steps": "steps",
    "max_turns": "steps",
    "error_max_turns": "steps",
    "timeout": "time",
    "token_limit": "tokens",
    "cost_limit": "cost",
}


class LimitsParameters(AnalyzerParameters):
    """What ended an attempt is what the harness said; there is nothing to tune."""


class Limits:
    def __init__(self, parameters: LimitsParameters) -> None:
        self._findings = Findings(KINDS, parameters.examples)
        self._attempts = 0
        self._solved: Counter[str] = Counter()

    def look_at(self, attempt: FinishedAttempt) -> None:
        self._attempts += 1
        record = attempt.record
        found = {_CODES[n.code]: n.message for n in record.notes if n.code in _CODES}
        stop = record.submission.stop_reason if record.submission else ""
        if stop in _STOP_REASONS:
            found.setdefault(_STOP_REASONS[stop], f"stop reason {stop}")
        if record.timed_out:
            found.setdefault("time", "stopped at the run deadline")
        done = [step.step_id for step in attempt.steps if step.source == "agent"]
        for kind, message in found.items():
            self._findings.add(kind, attempt, f"{message}, after {len(done)} replies", done[-1:])
            self._solved[kind] += (record.value or 0) > 0

    def report(self) -> Report:
        solved = {kind: count for kind, count in sorted(self._solved.items()) if count}
        return self._findings.report(
            {"attempts": self._attempts, "with_points_all_the_same": solved}
        )


COMPONENT = Component(version="1", create=Limits, parameters=LimitsParameters)
