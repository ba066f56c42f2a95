"""What each API protocol provides to the one client that speaks all of them."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from agentcompass.components.contracts.model import FinishReason, Message, ModelRequest
from agentcompass.components.models._litellm import Caller
from agentcompass.components.models._parameters import ModelParameters
from agentcompass.components.models._usage import Tokens


@dataclass(frozen=True)
class Body:
    """A request in the protocol's own form."""

    fields: dict[str, Any]
    """What litellm may adapt to the model: its names for parameters."""
    extra: dict[str, Any]
    """What is sent exactly as it stands, over all else."""
    reasoning_fields: tuple[str, ...] = ()
    """Names of the fields that carry earlier reasoning; empty: none is sent back."""


@dataclass(frozen=True)
class Decoded:
    """A reply that was read."""

    message: Message
    finish_reason: FinishReason
    tokens: Tokens | None
    model_name: str | None


@dataclass(frozen=True)
class Wanted:
    """What to encode."""

    request: ModelRequest
    model: str
    parameters: ModelParameters
    replay: bool
    """Send earlier reasoning back."""
    max_tokens: int | None = field(init=False)

    def __post_init__(self) -> None:
        asked, theirs = self.request.max_tokens, self.parameters.max_tokens
        limits = [limit for limit in (asked, theirs) if limit is not None]
        object.__setattr__(self, "max_tokens", min(limits, default=None))


class Dialect(Protocol):
    protocol: str
    unsupported: tuple[str, ...]
    """Names of parameters the protocol does not have."""

    def auth_headers(self, key: str) -> dict[str, str]: ...
    def encode(self, wanted: Wanted) -> Body: ...
    async def send(self, caller: Caller, body: Body, *, own_endpoint: bool) -> object: ...
    def overlay(self, body: Body) -> Mapping[str, Any]:
        """Parts of the body that litellm would lose, laid over what it sends."""
        ...

    def decode(self, document: Mapping[str, Any]) -> Decoded:
        """Raises UnreadableReply."""
        ...


def without_unset(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def encodable(value: Any) -> Any:
    """The same with half surrogates replaced, which no UTF-8 body can carry."""
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        return value
    if isinstance(value, Mapping):
        return {key: encodable(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [encodable(part) for part in value]
    return value


def joined_text(content: object, *types: str) -> str:
    """The text of a content that is a text, null, or a list of parts of these types."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    parts = [p for p in content if isinstance(p, Mapping) and p.get("type") in types]
    return "".join(text for p in parts if isinstance(text := p.get("text"), str))


def opaque(message: Message, protocol: str) -> Mapping[str, Any]:
    """What an earlier reply of this protocol asked to have back."""
    kept = message.provider_fields.get(protocol, {})
    return kept if isinstance(kept, Mapping) else {}


def as_text(value: object) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False)
