"""Tool calls that could not be carried out as sent: broken JSON, unknown tools, wrong arguments."""

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from pydantic import Field

from agentcompass.components.analyzers._findings import Findings, Kind
from agentcompass.components.contracts.analysis import AnalyzerParameters, FinishedAttempt, Report
from agentcompass.components.contracts.errors import Code
from agentcompass.components.contracts.protocols import Component
from agentcompass.components.contracts.trajectory import Step

_PARSER = (
    "Check the endpoint's tool-call parser and chat template: calls arrive broken or as plain text"
)
KINDS = {
    "gave_up": Kind(
        "serious", "the attempt ended because replies kept breaking the format", _PARSER, "lost"
    ),
    "no_call": Kind(
        "serious",
        "the attempt ended because replies held no tool call, and none was tried",
        "See what the agent says in place of acting: it never tried to call a tool, so the model "
        "may not be fit for this harness, or is not shown its tools",
        "lost",
    ),
    "in_text": Kind("warning", "a tool call was written as text", _PARSER, "lost"),
    "broken_json": Kind("warning", "the arguments are not a JSON object", _PARSER, "lost"),
    "unknown_tool": Kind("warning", "a tool was called that does not exist"),
    "wrong_arguments": Kind("warning", "a tool was called with arguments it does not take"),
}
_IN_TEXT = re.compile(
    r"<tool_call>|</tool_call>|<\|tool_calls?(?:_begin|▁begin)?\|>|<｜tool▁calls?▁begin｜>"
    r"|\[TOOL_CALLS\]|<function=\w+>|<\|channel\|>|<\|message\|>|<invoke name=|<\|python_tag\|>"
)
_ANSWERS = (
    ("broken_json", r"arguments are not a JSON object|Error parsing tool call arguments"),
    ("unknown_tool", r"there is no tool |Unknown tool |No such tool available|Tool \S+ not found"),
    (
        "wrong_arguments",
        r"^(?:\s*Tool call error:\s*<error>\s*)?(?:error: \w+ needs the argument"
        r"|error: \w+ has no argument|error: '\w+' (?:must be|holds)|Missing '\w+' argument"
        r"|The '\w+' argument (?:must|holds)|<tool_use_error>InputValidationError"
        r"|InputValidationError|Missing required parameter|error: .{0,80}invalid arguments)",
    ),
)
_HARNESS_SPEAKS = re.compile(r"\s*(?:[Ee]rror|Unknown|Missing|The '|Tool|No such|<|Input)")
_READ = tuple((kind, re.compile(pattern)) for kind, pattern in _ANSWERS)


class MalformedCallsParameters(AnalyzerParameters):
    least: Annotated[int, Field(ge=1)] = 1
    """Attempts with fewer malformed calls of a kind are not named."""


class MalformedCalls:
    def __init__(self, parameters: MalformedCallsParameters) -> None:
        self._least = parameters.least
        self._findings = Findings(KINDS, parameters.examples)
        self._calls = self._malformed = 0

    def look_at(self, attempt: FinishedAttempt) -> None:
        tools = _definitions(attempt)
        found: dict[str, list[tuple[int, str]]] = {}
        for step in attempt.steps:
            if step.source == "agent":
                self._calls += len(step.tool_calls or ())
                for kind, evidence in _problems(step, tools):
                    self._malformed += 1
                    found.setdefault(kind, []).append((step.step_id, evidence))
        for kind, places in found.items():
            if len(places) >= self._least:
                steps = [step for step, _ in places]
                self._findings.add(kind, attempt, places[0][1], steps)
        for note in attempt.record.notes:
            if note.code is Code.HARNESS_FORMAT:
                tried = found or any(map(_acts, attempt.steps)) or not attempt.steps
                self._findings.add("gave_up" if tried else "no_call", attempt, note.message)

    def report(self) -> Report:
        return self._findings.report({"calls": self._calls, "malformed": self._malformed})


def _acts(step: Step) -> bool:
    """It calls a tool, or writes a command in its text for harnesses that read it there."""
    return step.source == "agent" and (bool(step.tool_calls) or "```" in step.message)


def _problems(step: Step, tools: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    broken = {}
    listed = (step.extra or {}).get("malformed_calls")
    for item in listed if isinstance(listed, list | tuple) else ():
        if isinstance(item, Mapping):
            shown = f"{item.get('problem')}: {item.get('raw_arguments')}"
            broken[item.get("tool_call_id")] = shown
    results = step.observation.results if step.observation else ()
    for call in step.tool_calls or ():
        shown = "\n".join(r.content or "" for r in results if r.source_call_id == call.tool_call_id)
        if call.tool_call_id in broken:
            yield "broken_json", broken[call.tool_call_id]
        elif (said := _answered(shown)) is not None:
            yield said, shown
        elif tools and call.function_name not in tools:
            yield "unknown_tool", call.function_name
        elif missing := _missing(call.arguments, tools.get(call.function_name, {})):
            yield "wrong_arguments", f"{call.function_name} without {', '.join(missing)}"
    if not step.tool_calls and (mark := _IN_TEXT.search(step.message)):
        yield "in_text", step.message[max(0, mark.start() - 20) : mark.end() + 200]


def _answered(shown: str) -> str | None:
    """The harness's word for what was wrong; a program's own output starts otherwise."""
    head = shown[:400]
    if not _HARNESS_SPEAKS.match(head):
        return None
    return next((kind for kind, pattern in _READ if pattern.search(head)), None)


def _missing(arguments: Mapping[str, Any], schema: Mapping[str, Any]) -> list[str]:
    required = schema.get("required")
    names = required if isinstance(required, list | tuple) else ()
    return [name for name in names if isinstance(name, str) and name not in arguments]


def _definitions(attempt: FinishedAttempt) -> dict[str, Mapping[str, Any]]:
    """Tool name → JSON schema of its arguments; empty where the trajectory does not list tools."""
    found: dict[str, Mapping[str, Any]] = {}
    listed = attempt.trajectory.agent.tool_definitions if attempt.trajectory else None
    for definition in listed or ():
        function = definition.get("function", definition)
        if isinstance(function, Mapping) and isinstance(function.get("name"), str):
            schema = function.get("parameters") or function.get("input_schema") or {}
            found[function["name"]] = schema if isinstance(schema, Mapping) else {}
    return found


COMPONENT = Component(version="2", create=MalformedCalls, parameters=MalformedCallsParameters)
