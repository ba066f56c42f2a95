"""Anthropic's messages API."""

from collections.abc import Mapping
from typing import Any

from agentcompass.components.contracts.model import FinishReason, Message, ModelAccess
from agentcompass.components.contracts.protocols import Component
from agentcompass.components.models._client import ApiProvider
from agentcompass.components.models._dialect import (
    Body,
    Decoded,
    Wanted,
    joined_text,
    opaque,
    without_unset,
)
from agentcompass.components.models._failures import UnreadableReply
from agentcompass.components.models._litellm import Caller
from agentcompass.components.models._parameters import ModelParameters
from agentcompass.components.models._tool_calls import (
    SentCall,
    arguments_sent_back,
    read_calls,
)
from agentcompass.components.models._usage import anthropic_tokens

PROTOCOL = "anthropic-messages"
DEFAULT_MAX_TOKENS = 8192
_THINKING = ("thinking", "redacted_thinking")
_FINISH: dict[str, FinishReason] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "tool_use": "tool_calls",
    "refusal": "content_filter",
}


class AnthropicMessages:
    protocol = PROTOCOL
    unsupported: tuple[str, ...] = ("seed",)

    def auth_headers(self, key: str) -> dict[str, str]:
        return {"x-api-key": key}

    def encode(self, wanted: Wanted) -> Body:
        parameters = wanted.parameters
        messages = wanted.request.messages
        budget = parameters.reasoning.budget_tokens
        effort = parameters.reasoning.effort
        turns = _turns([m for m in messages if m.role != "system"], wanted.replay)
        fields = {
            "model": wanted.model,
            "messages": turns,
            "system": "\n\n".join(m.content for m in messages if m.role == "system") or None,
            "tools": [
                {
                    "name": tool.name,
                    "description": tool.description,
                    "input_schema": dict(tool.parameters),
                }
                for tool in wanted.request.tools
            ]
            or None,
            "temperature": parameters.temperature,
            "top_p": parameters.top_p,
            "top_k": parameters.top_k,
            "max_tokens": wanted.max_tokens or DEFAULT_MAX_TOKENS + (budget or 0),
            "stop_sequences": list(parameters.stop) or None,
            "thinking": {"type": "enabled", "budget_tokens": budget} if budget else None,
        }
        exact = {"messages": turns, "output_config": {"effort": effort} if effort else None}
        blocks = [b for t in turns if isinstance(t["content"], list) for b in t["content"]]
        carried = any(block.get("type") in _THINKING for block in blocks)
        return Body(
            without_unset(fields),
            without_unset(exact) | dict(parameters.extra_body),
            ("thinking",) if carried else (),
        )

    async def send(self, caller: Caller, body: Body, *, own_endpoint: bool) -> object:
        return await caller.messages(body.fields)

    def overlay(self, body: Body) -> Mapping[str, Any]:
        return body.extra  # litellm drops fields it does not know, and edits thinking blocks

    def decode(self, document: Mapping[str, Any]) -> Decoded:
        content = document.get("content")
        if not isinstance(content, list):
            raise UnreadableReply("the reply has no content")
        blocks = [block for block in content if isinstance(block, Mapping)]
        calls = read_calls(
            SentCall(b.get("id"), b.get("name"), b.get("input"))
            for b in blocks
            if b.get("type") == "tool_use"
        )
        thoughts = [b.get("thinking") for b in blocks if b.get("type") == "thinking"]
        readable = "\n".join(t for t in thoughts if isinstance(t, str) and t)
        message = Message(
            role="assistant",
            content=joined_text(content, "text"),
            tool_calls=calls,
            reasoning=readable or None,
            provider_fields=_kept(blocks),
        )
        model = document.get("model")
        finish = _FINISH.get(str(document.get("stop_reason")), "other")
        return Decoded(
            message,
            "tool_calls" if calls and finish in ("stop", "other") else finish,
            anthropic_tokens(document.get("usage")),
            model if isinstance(model, str) else None,
        )


def create(parameters: ModelParameters, access: ModelAccess) -> ApiProvider:
    return ApiProvider(AnthropicMessages(), parameters, access)


def _turns(messages: list[Message], replay: bool) -> list[dict[str, Any]]:
    """Messages as alternating turns; neighbours of one role become one turn."""
    turns: list[dict[str, Any]] = []
    for message in messages:
        role = "assistant" if message.role == "assistant" else "user"
        blocks = _blocks(message, replay)
        if not blocks:
            continue  # the API refuses an empty turn
        if turns and turns[-1]["role"] == role:
            turns[-1]["content"] += blocks
        else:
            turns.append({"role": role, "content": blocks})
    return turns


def _blocks(message: Message, replay: bool) -> list[dict[str, Any]]:
    if message.role == "tool":
        return [
            {
                "type": "tool_result",
                "tool_use_id": message.tool_call_id or "",
                "content": message.content,
            }
        ]
    text = [{"type": "text", "text": message.content}] if message.content.strip() else []
    if message.role != "assistant":
        return text
    calls = [
        {"type": "tool_use", "id": c.id, "name": c.name, "input": arguments_sent_back(c)}
        for c in message.tool_calls
    ]
    kept = opaque(message, PROTOCOL).get("blocks")
    if replay and isinstance(kept, list | tuple):
        return [calls[b["call"]] if "call" in b else dict(b) for b in kept]
    return text + calls


def _kept(blocks: list[Mapping[str, Any]]) -> dict[str, Any]:
    """The reply's blocks in their order, signatures included; only if there is thinking."""
    if not any(block.get("type") in _THINKING for block in blocks):
        return {}
    kept: list[dict[str, Any]] = []
    calls = 0
    for block in blocks:
        if block.get("type") == "tool_use":
            kept.append({"call": calls})
            calls += 1
        elif block.get("type") != "text" or str(block.get("text", "")).strip():
            kept.append(dict(block))
    return {PROTOCOL: {"blocks": kept}}


COMPONENT = Component(version="1", create=create, parameters=ModelParameters)
