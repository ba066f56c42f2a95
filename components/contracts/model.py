"""What goes to a model and what comes back, whatever the protocol."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from agentcompass.components.contracts.frozen import Frozen
from agentcompass.components.contracts.usage import Usage

FinishReason = Literal["stop", "length", "tool_calls", "content_filter", "other"]


class ToolDefinition(Frozen):
    name: str
    description: str
    parameters: Mapping[str, Any]
    """JSON schema of the arguments object."""


class ToolCall(Frozen):
    """A call the model asked for. Arguments are never invented: broken ones are None."""

    id: str
    """Unique in its reply; duplicates from the endpoint are renamed."""
    name: str
    arguments: Mapping[str, Any] | None
    """The parsed object, or None when `problem` says what is wrong with it."""
    raw_arguments: str = ""
    """As sent; cut when huge."""
    problem: str | None = None


class Message(Frozen):
    role: Literal["system", "user", "assistant", "tool"]
    content: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    """Assistant messages only."""
    tool_call_id: str | None = None
    """Tool messages only: the call this answers."""
    reasoning: str | None = None
    """Assistant only: the readable reasoning; recorded, never taken for the answer."""
    provider_fields: Mapping[str, Any] = {}
    """Opaque fields (signed reasoning blocks, …) to be sent back unchanged."""


class ModelRequest(Frozen):
    messages: tuple[Message, ...]
    tools: tuple[ToolDefinition, ...] = ()
    max_tokens: int | None = None
    """Overrides the user's `--model-params` only downwards; None: theirs."""


class ModelReply(Frozen):
    message: Message
    finish_reason: FinishReason
    usage: Usage
    model_name: str | None = None
    """As the endpoint named it."""
    latency_seconds: float = 0.0
    """Of the call that succeeded."""
    waiting_seconds: float = 0.0
    """Back-off before it."""


@dataclass(frozen=True)
class ModelAccess:
    """How a model is reached; lives in memory only. The second argument of a model's `create`."""

    name: str
    """The model's name at the endpoint."""
    base_url: str = ""
    api_key: str | None = field(default=None, repr=False)


class ModelEndpoint(Frozen):
    """For agents that speak to the model by themselves."""

    protocol: str
    base_url: str
    model: str
    api_key_variable: str | None = None
    """A reference; the value never travels in a record."""
