"""OpenAI's responses API, used without server-side state."""

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
from agentcompass.components.models._tool_calls import SentCall, arguments_text, read_calls
from agentcompass.components.models._usage import responses_tokens

PROTOCOL = "openai-responses"
_REASONING = "reasoning"


class OpenAIResponses:
    protocol = PROTOCOL
    unsupported: tuple[str, ...] = ("seed", "stop", "reasoning.budget_tokens")

    def auth_headers(self, key: str) -> dict[str, str]:
        return {"authorization": f"Bearer {key}"}

    def encode(self, wanted: Wanted) -> Body:
        parameters = wanted.parameters
        items = [i for m in wanted.request.messages for i in _items(m, wanted.replay)]
        tools = [
            {
                "type": "function",
                "name": tool.name,
                "description": tool.description,
                "parameters": dict(tool.parameters),
                "strict": False,  # the default would rewrite optional parameters into required
            }
            for tool in wanted.request.tools
        ]
        effort = parameters.reasoning.effort
        fields = {
            "model": wanted.model,
            "input": items,
            "tools": tools or None,
            "temperature": parameters.temperature,
            "top_p": parameters.top_p,
            "max_output_tokens": wanted.max_tokens,
            "reasoning": {"effort": effort} if effort else None,
            # Reasoning travels with us where it was asked for; models that do not reason refuse
            # the request for encrypted reasoning, so the server's defaults hold elsewhere.
            "include": ["reasoning.encrypted_content"] if effort else None,
            "store": False if effort else None,
        }
        # litellm prunes items and raises small limits: here they stand as they are.
        exact = {
            "input": items,
            "max_output_tokens": wanted.max_tokens,
            "top_k": parameters.top_k,
        }
        carried = any(item.get("type") == _REASONING for item in items)
        return Body(
            without_unset(fields),
            without_unset(exact) | dict(parameters.extra_body),
            (_REASONING,) if carried else (),
        )

    async def send(self, caller: Caller, body: Body, *, own_endpoint: bool) -> object:
        return await caller.responses(body.fields, body.extra)

    def overlay(self, body: Body) -> Mapping[str, Any]:
        return {}

    def decode(self, document: Mapping[str, Any]) -> Decoded:
        output = document.get("output")
        if not isinstance(output, list):
            raise UnreadableReply("the reply has no output")
        items = [item for item in output if isinstance(item, Mapping)]
        if not items and document.get("status") not in ("completed", "incomplete"):
            raise UnreadableReply(f"the reply's status is {document.get('status')!r}")
        sent = [item for item in items if item.get("type") == "function_call"]
        calls = read_calls(
            SentCall(c.get("call_id") or c.get("id"), c.get("name"), c.get("arguments"))
            for c in sent
        )
        texts = [
            joined_text(i.get("content"), "output_text") or "".join(_refusals(i.get("content")))
            for i in items
            if i.get("type") == "message"
        ]
        message = Message(
            role="assistant",
            content="".join(texts),
            tool_calls=calls,
            reasoning=_readable_reasoning(items),
            provider_fields=_kept(items),
        )
        model = document.get("model")
        return Decoded(
            message,
            _finish(document, bool(calls)),
            responses_tokens(document.get("usage")),
            model if isinstance(model, str) else None,
        )


def create(parameters: ModelParameters, access: ModelAccess) -> ApiProvider:
    return ApiProvider(OpenAIResponses(), parameters, access)


def _items(message: Message, replay: bool) -> list[dict[str, Any]]:
    if message.role == "tool":
        return [
            {
                "type": "function_call_output",
                "call_id": message.tool_call_id or "",
                "output": message.content,
            }
        ]
    if message.role != "assistant":
        return [{"role": message.role, "content": message.content}]
    calls = [
        {
            "type": "function_call",
            "call_id": call.id,
            "name": call.name,
            "arguments": arguments_text(call),
        }
        for call in message.tool_calls
    ]
    kept = opaque(message, PROTOCOL).get("items")
    if replay and isinstance(kept, list | tuple):
        return [calls[i["call"]] if "call" in i else dict(i) for i in kept]
    text = [{"role": "assistant", "content": message.content}]
    return (text if message.content or not calls else []) + calls


def _kept(items: list[Mapping[str, Any]]) -> dict[str, Any]:
    """The reply's items in their order, reasoning unchanged; only if there is reasoning."""
    if not any(item.get("type") == _REASONING for item in items):
        return {}
    kept: list[dict[str, Any]] = []
    calls = 0
    for item in items:
        if item.get("type") == "function_call":
            kept.append({"call": calls})
            calls += 1
        elif item.get("type") in (_REASONING, "message"):
            kept.append(dict(item))
    return {PROTOCOL: {"items": kept}}


def _readable_reasoning(items: list[Mapping[str, Any]]) -> str | None:
    texts: list[str] = []
    for item in items:
        if item.get("type") == _REASONING:
            texts.append(joined_text(item.get("content"), "reasoning_text"))
            texts.append(joined_text(item.get("summary"), "summary_text"))
    return "\n".join(text for text in texts if text) or None


def _refusals(content: object) -> list[str]:
    parts = content if isinstance(content, list) else []
    return [str(p.get("refusal", "")) for p in parts if isinstance(p, Mapping)]


def _finish(document: Mapping[str, Any], calls: bool) -> FinishReason:
    details = document.get("incomplete_details")
    if document.get("status") == "incomplete" and isinstance(details, Mapping):
        reason = details.get("reason")
        if reason == "content_filter":
            return "content_filter"
        return "length" if reason in ("max_output_tokens", "max_tokens") else "other"
    if calls:
        return "tool_calls"
    return "stop" if document.get("status") in ("completed", None) else "other"


COMPONENT = Component(version="1", create=create, parameters=ModelParameters)
