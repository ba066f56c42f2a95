"""Short ways to ask a model in tests."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

from agentcompass.components.contracts.attempt import AttemptKey
from agentcompass.components.contracts.model import (
    Message,
    ModelAccess,
    ModelReply,
    ModelRequest,
    ToolDefinition,
)
from agentcompass.components.models._client import ApiProvider
from agentcompass.components.registry.registry import load

PROTOCOLS = ("openai-chat", "openai-responses", "anthropic-messages")
KEY = "sk-very-secret-key"
TOOL = ToolDefinition(
    name="bash",
    description="run a command",
    parameters={"type": "object", "properties": {"command": {"type": "string"}}},
)
T = TypeVar("T")


def attempt(task: str = "t", index: int = 1, physical: int = 1) -> AttemptKey:
    return AttemptKey(task_id=task, index=index, physical=physical)


def provider(protocol: str, base_url: str, key: str | None = KEY, **parameters: Any) -> ApiProvider:
    component = load("models", protocol)
    made = component.create(
        component.parameters.model_validate(parameters),
        ModelAccess(name="some/model", base_url=base_url, api_key=key),
    )
    assert isinstance(made, ApiProvider)
    return made


def request(*texts: str, tools: Sequence[ToolDefinition] = ()) -> ModelRequest:
    messages = tuple(Message(role="user", content=text) for text in texts or ("hi",))
    return ModelRequest(messages=messages, tools=tuple(tools))


def with_provider(made: ApiProvider, use: Callable[[ApiProvider], Awaitable[T]]) -> T:
    async def scenario() -> T:
        try:
            return await use(made)
        finally:
            await made.close()

    return asyncio.run(scenario())


def ask(made: ApiProvider, asked: ModelRequest | None = None) -> ModelReply:
    """One call on a provider of its own."""

    async def use(provider: ApiProvider) -> ModelReply:
        return await provider.client(attempt()).complete(asked or request())

    return with_provider(made, use)


def tool_loop(made: ApiProvider, steps: int) -> list[ModelReply]:
    """A harness in miniature: answers every tool call, up to so many replies."""

    async def use(provider: ApiProvider) -> list[ModelReply]:
        client = provider.client(attempt())
        messages = [Message(role="system", content="S"), Message(role="user", content="go")]
        replies = []
        for _ in range(steps):
            asked = ModelRequest(messages=tuple(messages), tools=(TOOL,))
            replies.append(reply := await client.complete(asked))
            messages.append(reply.message)
            messages += [
                Message(role="tool", tool_call_id=call.id, content=call.problem or "done")
                for call in reply.message.tool_calls
            ]
        return replies

    return with_provider(made, use)
