"""Tool calls as endpoints send them. Arguments that cannot be read are never invented."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from agentcompass.components.contracts.model import ToolCall

RAW_LIMIT = 2_000


@dataclass(frozen=True)
class SentCall:
    """One call as it stood in a reply."""

    id: object
    name: object
    arguments: object
    """JSON text, or an object where the protocol sends one."""


def read_calls(sent: Iterable[SentCall]) -> tuple[ToolCall, ...]:
    """Every call, in order, with unique ids; broken ones say what is wrong with them."""
    calls: list[ToolCall] = []
    taken: set[str] = set()
    for number, call in enumerate(sent, start=1):
        wanted = call.id if isinstance(call.id, str) and call.id else f"call_{number}"
        call_id, suffix = wanted, 2
        while call_id in taken:
            call_id, suffix = f"{wanted}_{suffix}", suffix + 1
        taken.add(call_id)
        arguments, problem = read_arguments(call.arguments)
        name = call.name if isinstance(call.name, str) else ""
        if not name:
            arguments, problem = None, "the call names no tool"
        raw = _raw(call.arguments, cut=arguments is None)
        calls.append(
            ToolCall(id=call_id, name=name, arguments=arguments, raw_arguments=raw, problem=problem)
        )
    return tuple(calls)


def read_arguments(sent: object) -> tuple[dict[str, Any] | None, str | None]:
    """The arguments object, or None and the problem.

    An object that was encoded twice is decoded once more; nothing else is repaired.
    """
    if isinstance(sent, Mapping):
        return dict(sent), None
    if not isinstance(sent, str) or not sent.strip():
        return None, "the arguments are empty; send a JSON object, {} for none"
    try:
        value = json.loads(sent)
    except (ValueError, RecursionError) as error:
        return None, f"the arguments are not valid JSON ({str(error)[:120]})"
    if isinstance(value, str):
        try:
            inner = json.loads(value)
        except (ValueError, RecursionError):
            inner = None
        value = inner if isinstance(inner, dict) else value
    if not isinstance(value, dict):
        return None, f"the arguments are a JSON {_kind(value)}, not an object"
    return value, None


def arguments_sent_back(call: ToolCall) -> dict[str, Any]:
    """What later turns show of a call: always an object, since servers parse it.

    Broken arguments come back as text under a telling name, never as if they had been valid.
    """
    if call.arguments is not None:
        return dict(call.arguments)
    return {"unreadable_arguments": call.raw_arguments}


def arguments_text(call: ToolCall) -> str:
    """The same as JSON text; exactly as the endpoint sent it where that was an object."""
    if call.arguments is not None and call.raw_arguments.lstrip().startswith("{"):
        return call.raw_arguments
    return json.dumps(arguments_sent_back(call), ensure_ascii=False)


def _raw(sent: object, *, cut: bool) -> str:
    """Valid arguments are kept whole: they are sent back as they came."""
    text = sent if isinstance(sent, str) else "" if sent is None else json.dumps(sent)
    if not cut or len(text) <= RAW_LIMIT:
        return text
    return f"{text[:RAW_LIMIT]}… [{len(text) - RAW_LIMIT} characters cut]"


def _kind(value: object) -> str:
    if value is None:
        return "null"
    return {list: "array", str: "string", bool: "boolean"}.get(type(value), "number")
