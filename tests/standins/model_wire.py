"""The three API protocols, from the endpoint's side: reading requests, writing replies.

Formats: OpenAI chat completions, OpenAI responses, Anthropic messages; each also as the
server-sent events of its streaming form.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from tests.standins.model_script import Reply

PROTOCOLS = {
    "/v1/chat/completions": "openai-chat",
    "/v1/responses": "openai-responses",
    "/v1/messages": "anthropic-messages",
}

_CHAT_FIELDS = {"role", "content", "name", "tool_calls", "tool_call_id"}


def conversation(protocol: str, body: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    items = body.get("input" if protocol == "openai-responses" else "messages", [])
    if isinstance(items, str):
        return [{"role": "user", "content": items}]
    return [item for item in items if isinstance(item, Mapping)]


def first_user(items: list[Mapping[str, Any]]) -> str:
    return next((_text(i.get("content")) for i in items if i.get("role") == "user"), "")


def step(items: list[Mapping[str, Any]]) -> int:
    """Assistant turns so far; in `responses`, a run of output items is one turn."""
    turns, inside = 0, False
    for item in items:
        mine = item.get("role") == "assistant" or item.get("type") in ("function_call", "reasoning")
        if mine and (not inside or item.get("role") == "assistant" and "type" not in item):
            turns += 1
        inside = mine
    return turns


def call_ids(items: list[Mapping[str, Any]]) -> Iterator[str]:
    for item in items:
        if item.get("type") == "function_call":
            yield str(item.get("call_id"))
        for call in item.get("tool_calls") or ():
            yield str(call.get("id"))
        if isinstance(item.get("content"), list):
            yield from (str(b["id"]) for b in item["content"] if b.get("type") == "tool_use")


def reasoning_sent_back(items: list[Mapping[str, Any]]) -> list[Any]:
    """Each reasoning payload in the request, as it would have left this endpoint."""
    found: list[Any] = []
    for item in items:
        if item.get("type") == "reasoning":
            found.append(item.get("encrypted_content"))
        if "reasoning_content" in item:
            found.append(item["reasoning_content"])
        if isinstance(item.get("content"), list):
            found += [
                (b.get("thinking"), b.get("signature"))
                for b in item["content"]
                if b.get("type") == "thinking"
            ]
    return found


def reasoning_payload(protocol: str, reply: Reply) -> Any:
    if protocol == "openai-responses":
        return f"encrypted:{reply.reasoning}"
    if protocol == "anthropic-messages":
        return (reply.reasoning, f"signed:{reply.reasoning}")
    return reply.reasoning


def unknown_field(items: list[Mapping[str, Any]]) -> str | None:
    for item in items:
        if item.get("type") in (None, "message"):
            extra = set(item) - _CHAT_FIELDS - {"type"}
            if extra:
                return sorted(extra)[0]
        elif item.get("type") == "reasoning":
            return "type=reasoning"
    return None


def render(protocol: str, reply: Reply, model: str, prefix: str) -> dict[str, Any]:
    """The body of a normal reply. `prefix` makes the ids of its tool calls."""
    calls = [
        {"id": c.get("id", f"{prefix}i{n}"), "name": c["name"], "arguments": c.get("arguments", {})}
        for n, c in enumerate(reply.tool_calls)
    ]
    if protocol == "openai-chat":
        return _chat(reply, model, calls)
    if protocol == "openai-responses":
        return _responses(reply, model, calls)
    return _anthropic(reply, model, calls)


def _chat(reply: Reply, model: str, calls: list[dict[str, Any]]) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": reply.text}
    if reply.reasoning is not None:
        message["reasoning_content"] = reply.reasoning
    if calls:
        message["tool_calls"] = [
            {
                "id": c["id"],
                "type": "function",
                "function": {"name": c["name"], "arguments": _raw(c["arguments"])},
            }
            for c in calls
        ]
    finish = reply.finish_reason or ("tool_calls" if calls else "stop")
    body: dict[str, Any] = {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": model,
        "choices": [{"index": 0, "message": message, "finish_reason": finish}],
    }
    if (u := reply.usage) is not None:
        body["usage"] = {
            "prompt_tokens": u.input,
            "completion_tokens": u.output,
            "total_tokens": u.input + u.output,
            "prompt_tokens_details": {"cached_tokens": u.cached},
            "completion_tokens_details": {"reasoning_tokens": u.reasoning},
        }
    return body


def _responses(reply: Reply, model: str, calls: list[dict[str, Any]]) -> dict[str, Any]:
    output: list[dict[str, Any]] = []
    if reply.reasoning is not None:
        summary = [{"type": "summary_text", "text": reply.reasoning}]
        encrypted = f"encrypted:{reply.reasoning}"
        output.append(
            {"type": "reasoning", "id": "rs_1", "summary": summary, "encrypted_content": encrypted}
        )
    if reply.text:
        part = {"type": "output_text", "text": reply.text, "annotations": []}
        output.append(
            {
                "type": "message",
                "id": "msg_1",
                "role": "assistant",
                "status": "completed",
                "content": [part],
            }
        )
    output += [
        {
            "type": "function_call",
            "id": f"fc_{c['id']}",
            "call_id": c["id"],
            "name": c["name"],
            "arguments": _raw(c["arguments"]),
            "status": "completed",
        }
        for c in calls
    ]
    cut = reply.finish_reason in ("length", "max_output_tokens", "content_filter")
    reason = "content_filter" if reply.finish_reason == "content_filter" else "max_output_tokens"
    body: dict[str, Any] = {
        "id": "resp_1",
        "object": "response",
        "created_at": 1,
        "status": "incomplete" if cut else "completed",
        "incomplete_details": {"reason": reason} if cut else None,
        "error": None,
        "model": model,
        "output": output,
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
    }
    if (u := reply.usage) is not None:
        body["usage"] = {
            "input_tokens": u.input,
            "input_tokens_details": {"cached_tokens": u.cached},
            "output_tokens": u.output,
            "output_tokens_details": {"reasoning_tokens": u.reasoning},
            "total_tokens": u.input + u.output,
        }
    return body


def _anthropic(reply: Reply, model: str, calls: list[dict[str, Any]]) -> dict[str, Any]:
    content: list[dict[str, Any]] = []
    if reply.reasoning is not None:
        content.append(
            {
                "type": "thinking",
                "thinking": reply.reasoning,
                "signature": f"signed:{reply.reasoning}",
            }
        )
    if reply.text:
        content.append({"type": "text", "text": reply.text})
    content += [
        {"type": "tool_use", "id": c["id"], "name": c["name"], "input": c["arguments"]}
        for c in calls
    ]
    stop = {"length": "max_tokens", "stop": "end_turn"}.get(
        reply.finish_reason or "", reply.finish_reason
    )
    body: dict[str, Any] = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": content,
        "stop_reason": stop or ("tool_use" if calls else "end_turn"),
        "stop_sequence": None,
    }
    if (u := reply.usage) is not None:  # here input_tokens leaves the cached ones out
        body["usage"] = {
            "input_tokens": u.input - u.cached,
            "cache_read_input_tokens": u.cached,
            "cache_creation_input_tokens": 0,
            "output_tokens": u.output,
        }
    return body


def _raw(arguments: object) -> str:
    return arguments if isinstance(arguments, str) else json.dumps(arguments)


def _text(content: object) -> str:
    if isinstance(content, list):
        return "\n".join(str(b.get("text", "")) for b in content if isinstance(b, Mapping))
    return content if isinstance(content, str) else ""
