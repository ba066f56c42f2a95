"""A whole reply as the server-sent events of its protocol's streaming form."""

import json
from collections.abc import Iterator, Mapping
from typing import Any


def events(protocol: str, body: Mapping[str, Any]) -> Iterator[bytes]:
    if protocol == "openai-chat":
        yield from _chat(body)
    elif protocol == "openai-responses":
        for number, event in enumerate(_responses(body)):
            yield _event({**event, "sequence_number": number}, name=event["type"])
    else:
        for event in _anthropic(body):
            yield _event(event, name=event["type"])


def _chat(body: Mapping[str, Any]) -> Iterator[bytes]:
    choice = body["choices"][0]
    head = {k: body[k] for k in ("id", "created", "model")} | {"object": "chat.completion.chunk"}
    message = dict(choice["message"])
    calls = [{"index": i, **c} for i, c in enumerate(message.pop("tool_calls", ()))]
    deltas: list[dict[str, Any]] = [message] + [{"tool_calls": [c]} for c in calls]
    for delta in deltas:
        yield _event({**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]})
    end = {"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]}
    yield _event({**head, "choices": [end]})
    if "usage" in body:
        yield _event({**head, "choices": [], "usage": body["usage"]})
    yield b"data: [DONE]\n\n"


def _responses(body: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    started = {**body, "status": "in_progress", "output": [], "usage": None}
    yield {"type": "response.created", "response": started}
    for index, item in enumerate(body["output"]):
        at = {"output_index": index, "item_id": item["id"]}
        empty = {**item, "status": "in_progress"}
        if item["type"] == "message":
            empty["content"] = []
        elif item["type"] == "function_call":
            empty["arguments"] = ""
        yield {"type": "response.output_item.added", "output_index": index, "item": empty}
        if item["type"] == "message":
            part = item["content"][0]
            here = {**at, "content_index": 0}
            blank = {**part, "text": ""}
            yield {"type": "response.content_part.added", **here, "part": blank}
            yield {"type": "response.output_text.delta", **here, "delta": part["text"]}
            yield {"type": "response.output_text.done", **here, "text": part["text"]}
            yield {"type": "response.content_part.done", **here, "part": part}
        elif item["type"] == "function_call":
            arguments = item["arguments"]
            yield {"type": "response.function_call_arguments.delta", **at, "delta": arguments}
            yield {"type": "response.function_call_arguments.done", **at, "arguments": arguments}
        yield {"type": "response.output_item.done", "output_index": index, "item": item}
    name = "incomplete" if body["status"] == "incomplete" else "completed"
    yield {"type": f"response.{name}", "response": body}


def _anthropic(body: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    usage = body.get("usage", {"input_tokens": 0, "output_tokens": 0})
    opening = {**body, "content": [], "stop_reason": None, "usage": {**usage, "output_tokens": 1}}
    yield {"type": "message_start", "message": opening}
    for index, block in enumerate(body["content"]):
        empty, deltas = _block(block)
        yield {"type": "content_block_start", "index": index, "content_block": empty}
        for delta in deltas:
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    stop = {"stop_reason": body["stop_reason"], "stop_sequence": None}
    yield {"type": "message_delta", "delta": stop, "usage": usage}
    yield {"type": "message_stop"}


def _block(block: Mapping[str, Any]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    if block["type"] == "text":
        return {**block, "text": ""}, [{"type": "text_delta", "text": block["text"]}]
    if block["type"] == "thinking":
        return {**block, "thinking": "", "signature": ""}, [
            {"type": "thinking_delta", "thinking": block["thinking"]},
            {"type": "signature_delta", "signature": block["signature"]},
        ]
    given = json.dumps(block["input"])
    return {**block, "input": {}}, [{"type": "input_json_delta", "partial_json": given}]


def _event(data: Mapping[str, Any], name: str | None = None) -> bytes:
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {json.dumps(data)}\n\n".encode()
