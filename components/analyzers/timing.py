"""Where the time went: by phase, in calls to the model, in tools, in waiting; and who took longest.

Waiting for the model (back-off after failed calls, queueing for rate limits) is part of the agent's
run phase, and apart from the model's own time.
"""

from array import array
from collections.abc import Iterator
from datetime import datetime
from typing import Annotated

from pydantic import Field

from agentcompass.components.analyzers._findings import Findings, Kind
from agentcompass.components.analyzers._numbers import outlier_limit, summary
from agentcompass.components.contracts.analysis import (
    Advice,
    AnalyzerParameters,
    FinishedAttempt,
    Report,
)
from agentcompass.components.contracts.errors import POLICIES, Code, Owner
from agentcompass.components.contracts.protocols import Component
from agentcompass.components.contracts.trajectory import Step

KINDS = {
    "waiting": Kind(
        "warning",
        "much of the agent's time went into waiting for the model (rate limits, failing endpoint)",
        "See what attempts wait for: the model's endpoint refuses or fails calls until they are "
        "made again",
    ),
    "slow_call": Kind(
        "info",
        "a single call to the model took long",
        "See whether the endpoint is overloaded: single calls take very long",
    ),
    "slow_tool": Kind("info", "a single tool call took long"),
    "long_attempt": Kind("info", "the attempt took far longer than the others"),
}
_RATE_LIMITED = (
    "Lower --task-concurrency, or ask for a higher rate limit: attempts wait for the model"
)
_PHASES = ("setup", "run", "collect", "score", "model", "waiting")


class TimingParameters(AnalyzerParameters):
    slow_call_seconds: Annotated[float, Field(gt=0)] = 300
    """A call to the model that took longer is named."""
    slow_tool_seconds: Annotated[float, Field(gt=0)] = 600
    """A tool call that took longer is named."""
    waiting_share: Annotated[float, Field(gt=0, le=1)] = 0.25
    """Of the agent's time; attempts that waited for more of it, and over 10 s, are named."""
    outlier_factor: Annotated[float, Field(gt=1)] = 5
    """An attempt that took so many times the median, and over 60 s, is named."""
    outlier_attempts: Annotated[int, Field(ge=2)] = 8
    """In runs with fewer attempts none is far off."""


class Timing:
    def __init__(self, parameters: TimingParameters) -> None:
        self._parameters = parameters
        self._findings = Findings(KINDS, parameters.examples)
        self._phases = {phase: array("d") for phase in _PHASES}
        self._calls, self._tools = array("d"), array("d")
        self._runs: list[tuple[str, int, float]] = []
        self._met: set[Code] = set()
        """Failures of attempts that waited long, and of their earlier tries."""
        self._endpoint_failed = False

    def look_at(self, attempt: FinishedAttempt) -> None:
        record, limits = attempt.record, self._parameters
        if record.origin is not None:  # measured in another run, counted there
            return
        failed = record.failure.code if record.failure else None
        if failed is not None and POLICIES[failed].owner is Owner.MODEL:
            self._endpoint_failed |= failed is not Code.MODEL_RATE_LIMITED
        times = record.times
        for phase in _PHASES:
            seconds = getattr(times, f"{phase}_seconds")
            if seconds is not None:
                self._phases[phase].append(seconds)
        run = times.run_seconds
        if run is not None:
            self._runs.append((record.key.task_id, record.key.index, run))
            waiting = times.waiting_seconds
            if waiting > 10 and waiting > limits.waiting_share * run:
                evidence = f"waited {waiting:.0f} s of {run:.0f} s"
                self._findings.add("waiting", attempt, evidence)
                self._met.update(note.code for note in (*record.earlier_failures, *record.notes))
                self._met.update([failed] if failed is not None else ())
        for step in attempt.steps:
            latency = _number(step, "latency_seconds")
            if latency is not None:
                self._calls.append(latency)
                if latency > limits.slow_call_seconds:
                    self._findings.add("slow_call", attempt, f"{latency:.0f} s", [step.step_id])
        for step, seconds in _tool_times(attempt.steps):
            self._tools.append(seconds)
            if seconds > limits.slow_tool_seconds:
                called = step.tool_calls[0] if step.tool_calls else None
                what = f"{called.function_name} {dict(called.arguments)}" if called else ""
                self._findings.add("slow_tool", attempt, f"{seconds:.0f} s: {what}", [step.step_id])

    def report(self) -> Report:
        limits = self._parameters
        runs = [seconds for _, _, seconds in self._runs]
        limit = outlier_limit(runs, limits.outlier_factor, limits.outlier_attempts)
        for task_id, index, seconds in self._runs:
            if limit is not None and seconds > max(limit, 60):
                evidence = f"{seconds:.0f} s, {limits.outlier_factor:g} times the median or more"
                self._findings.add_by_key("long_attempt", task_id, index, evidence)
        numbers = {f"{name}_seconds": summary(values) for name, values in self._phases.items()}
        numbers["model_call_seconds"] = summary(self._calls)
        numbers["tool_call_seconds"] = summary(self._tools)
        report = self._findings.report(numbers, _table(numbers))
        return report.model_copy(update={"advice": tuple(self._advice(report))})

    def _advice(self, report: Report) -> Iterator[Advice]:
        """What they waited for stands in no record but for its failures: rate limits are spoken of
        where they are known. Of an endpoint that fails attempts the failures' advice speaks."""
        for one in report.advice:
            if one.action != KINDS["waiting"].action:
                yield one
            elif Code.MODEL_RATE_LIMITED in self._met:
                yield one.model_copy(update={"action": _RATE_LIMITED})
            elif not self._endpoint_failed:
                yield one


def _tool_times(steps: tuple[Step, ...]) -> Iterator[tuple[Step, float]]:
    """Seconds from an agent's step to the next one, less what the model took of them."""
    for step, following in zip(steps, steps[1:], strict=False):
        if step.source != "agent" or not step.tool_calls or following.source != "agent":
            continue
        latency = _number(following, "latency_seconds")
        if latency is None or not (step.timestamp and following.timestamp):
            continue
        try:
            passed = datetime.fromisoformat(following.timestamp) - datetime.fromisoformat(
                step.timestamp
            )
        except (ValueError, TypeError):  # not a time, or one without a zone beside one with
            continue
        waiting = _number(following, "waiting_seconds") or 0.0
        yield step, max(0.0, passed.total_seconds() - latency - waiting)


def _number(step: Step, name: str) -> float | None:
    value = (step.extra or {}).get(name)
    return float(value) if isinstance(value, int | float) else None


def _table(numbers: dict[str, dict[str, float | int]]) -> str:
    rows = [
        f"| {name.removesuffix('_seconds').replace('_', ' ')} | {n['n']} | {n['median']:.1f} "
        f"| {n['p90']:.1f} | {n['max']:.1f} | {n['sum']:.0f} |"
        for name, n in numbers.items()
        if n and (n["sum"] or name == "run_seconds")
    ]
    if not rows:
        return ""
    head = "| seconds | n | median | 90 % below | longest | all together |"
    return "\n".join([head, "| - | - | - | - | - | - |", *rows, ""])


COMPONENT = Component(version="2", create=Timing, parameters=TimingParameters)
