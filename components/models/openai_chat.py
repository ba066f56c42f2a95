"""OpenAI's chat completions API, which most servers and gateways speak."""

from collections.abc import Mapping
from typing import Any

from agentcompass.components.contracts.model import (
    FinishReason,
    Message,
    ModelAccess,
    ToolCall,
)
from agentcompass.components.contracts.protocols import Component
from agentcompass.components.models._client import ApiProvider
from agentcompass.components.models._dialect import (
    Body,
    Decoded,
    Wanted,
    as_text,
    joined_text,
    opaque,
    without_unset,
)
from agentcompass.components.models._failures import UnreadableReply
from agentcompass.components.models._litellm import Caller
from agentcompass.components.models._parameters import ModelParameters
from agentcompass.components.models._tool_calls import SentCall, arguments_text, read_calls
from agentcompass.components.models._usage import chat_tokens

PROTOCOL = "openai-chat"
_REASONING = ("reasoning_content", "reasoning", "reasoning_details", "thinking_blocks")
_KNOWN_CALL_FIELDS = {"id", "type", "function", "index"}
_FINISH: dict[str, FinishReason] = {
    "stop": "stop",
    "eos": "stop",
    "end_turn": "stop",
    "length": "length",
    "max_tokens": "length",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "content_filter": "content_filter",
}


class OpenAIChat:
    protocol = PROTOCOL
    unsupported: tuple[str, ...] = ("reasoning.budget_tokens",)

    def auth_headers(self, key: str) -> dict[str, str]:
        return {"authorization": f"Bearer {key}"}

    def encode(self, wanted: Wanted) -> Body:
        parameters = wanted.parameters
        messages = [_message(m, wanted.replay) for m in wanted.request.messages]
        tools = [
            {
                "type": "function",
                "function": {
                    "name": tool.name,
                    "description": tool.description,
                    "parameters": dict(tool.parameters),
                },
            }
            for tool in wanted.request.tools
        ]
        fields = {
            "model": wanted.model,
            "messages": messages,
            "tools": tools or None,
            "temperature": parameters.temperature,
            "top_p": parameters.top_p,
            "max_tokens": wanted.max_tokens,
            "seed": parameters.seed,
            "stop": list(parameters.stop) or None,
            "reasoning_effort": parameters.reasoning.effort,
        }
        # Twice: litellm and the SDK prune null fields of the messages they take as an argument.
        exact = {"messages": messages, "top_k": parameters.top_k}
        carried = tuple(n for n in _REASONING if any(n in message for message in messages))
        return Body(
            without_unset(fields), without_unset(exact) | dict(parameters.extra_body), carried
        )

    async def send(self, caller: Caller, body: Body, *, own_endpoint: bool) -> object:
        fields, extra = dict(body.fields), dict(body.extra)
        if not own_endpoint and (effort := fields.pop("reasoning_effort", None)) is not None:
            extra.setdefault("reasoning_effort", effort)  # any word a server may know
        return await caller.chat(fields, extra, own_endpoint)

    def overlay(self, body: Body) -> Mapping[str, Any]:
        return {}

    def decode(self, document: Mapping[str, Any]) -> Decoded:
        choices = document.get("choices")
        if not isinstance(choices, list) or not choices or not isinstance(choices[0], Mapping):
            raise UnreadableReply("the reply has no choices")
        choice = choices[0]
        sent = choice.get("message")
        if not isinstance(sent, Mapping):
            raise UnreadableReply("the reply's choice has no message")
        listed = sent.get("tool_calls")
        raw_calls = (
            [c for c in listed if isinstance(c, Mapping)] if isinstance(listed, list) else []
        )
        calls = read_calls(_sent_call(c) for c in raw_calls)
        content = joined_text(sent.get("content"), "text", "output_text")
        message = Message(
            role="assistant",
            content=content or joined_text(sent.get("refusal")),
            tool_calls=calls,
            reasoning=_readable_reasoning(sent),
            provider_fields=_kept(sent, raw_calls, calls),
        )
        finish = _FINISH.get(str(choice.get("finish_reason")), "other")
        if calls and finish in ("stop", "other"):
            finish = "tool_calls"
        model = document.get("model")
        return Decoded(
            message,
            finish,
            chat_tokens(document.get("usage")),
            model if isinstance(model, str) else None,
        )


def create(parameters: ModelParameters, access: ModelAccess) -> ApiProvider:
    return ApiProvider(OpenAIChat(), parameters, access)


def _message(message: Message, replay: bool) -> dict[str, Any]:
    if message.role == "tool":
        return {
            "role": "tool",
            "tool_call_id": message.tool_call_id or "",
            "content": message.content,
        }
    sent: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.role != "assistant":
        return sent
    kept = opaque(message, PROTOCOL)
    if message.tool_calls:
        sent["content"] = message.content or None
        extras = kept.get("tool_calls", {})
        sent["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": arguments_text(call)},
                **(extras.get(call.id, {}) if replay else {}),
            }
            for call in message.tool_calls
        ]
    if replay:
        sent |= {name: kept[name] for name in _REASONING if name in kept}
    return sent


def _sent_call(call: Mapping[str, Any]) -> SentCall:
    function = call.get("function")
    function = function if isinstance(function, Mapping) else {}
    return SentCall(call.get("id"), function.get("name"), function.get("arguments"))


def _readable_reasoning(sent: Mapping[str, Any]) -> str | None:
    for name in ("reasoning_content", "reasoning"):
        if isinstance(sent.get(name), str):
            return str(sent[name])
    parts = sent.get("content")
    thinking = [p for p in parts if isinstance(p, Mapping)] if isinstance(parts, list) else []
    found = [as_text(p.get("thinking")) for p in thinking if p.get("type") == "thinking"]
    return "".join(text for text in found if text) or None


def _kept(
    sent: Mapping[str, Any], raw: list[Mapping[str, Any]], calls: tuple[ToolCall, ...]
) -> dict[str, Any]:
    """Reasoning fields, and unknown fields of calls (signatures), to be sent back unchanged."""
    kept: dict[str, Any] = {n: sent[n] for n in _REASONING if sent.get(n) is not None}
    extras = {
        call.id: {n: v for n, v in source.items() if n not in _KNOWN_CALL_FIELDS and v is not None}
        for call, source in zip(calls, raw, strict=True)
    }
    if extras := {call_id: fields for call_id, fields in extras.items() if fields}:
        kept["tool_calls"] = extras
    return {PROTOCOL: kept} if kept else {}


COMPONENT = Component(version="1", create=create, parameters=ModelParameters)
