"""The parameters of every API model: `--model-params`."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator

from agentcompass.components.contracts.frozen import Frozen

Dollars = Annotated[float, Field(ge=0)]

OWN_FIELDS = frozenset({"model", "messages", "input", "stream", "n"})
"""What `extra_body` may not set: the run's own, or what would change the shape of replies."""


class Prices(Frozen):
    """US dollars per million tokens."""

    input: Dollars
    """Prompt tokens."""
    cached_input: Dollars | None = None
    """Prompt tokens read from the endpoint's cache; unset: as `input`."""
    output: Dollars
    """Completion tokens, reasoning included."""


class Reasoning(Frozen):
    """How much the model thinks, and what becomes of its reasoning in later turns."""

    effort: str | None = None
    """The endpoint's own word, such as `low`, `medium`, `high`."""
    budget_tokens: Annotated[int, Field(ge=0)] | None = None
    """Anthropic only: thinking with at most this many tokens."""
    replay: Literal["auto", "always", "never"] = "auto"
    """Whether earlier reasoning is sent back, unchanged. `auto`: it is, until the endpoint
    refuses it as an unknown field; from then on it is left out for the rest of the run."""


class ModelParameters(Frozen):
    """Sampling, limits and prices. A field left unset is not sent: the endpoint's default holds."""

    temperature: Annotated[float, Field(ge=0)] | None = None
    """Sampling temperature."""
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    """Nucleus sampling."""
    top_k: Annotated[int, Field(ge=1)] | None = None
    """Sampling among the k likeliest; OpenAI itself has none, most local servers do."""
    max_tokens: Annotated[int, Field(ge=1)] | None = None
    """Longest reply, reasoning included. `anthropic-messages` needs one: unset means 8192 there
    (beside `reasoning.budget_tokens`)."""
    seed: int | None = None
    """Sampling seed; only `openai-chat` has one."""
    stop: tuple[str, ...] = ()
    """Texts that end a reply."""
    reasoning: Reasoning = Reasoning()
    """Thinking."""
    extra_body: Mapping[str, Any] = {}
    """Further fields of the request's body, sent as they are; they win over all others."""
    headers: Mapping[str, str] = {}
    """Further HTTP headers; their values are masked in every message."""
    timeout: Annotated[float, Field(gt=0, le=86_400)] = 600.0
    """Seconds for one try, from the first byte sent to the last byte read."""
    connect_timeout: Annotated[float, Field(gt=0, le=600)] = 15.0
    """Seconds for opening a connection."""
    max_retry_seconds: Annotated[float, Field(ge=0, le=86_400)] = 600.0
    """A call is given up when its tries in vain and the delays between them come to this many
    seconds; waiting for a turn at a busy endpoint is not counted. 0: no retries."""
    prices: Prices | None = None
    """What the model costs. Unset: the public price list, for the makers' own endpoints only."""

    @field_validator("extra_body")
    @classmethod
    def _no_own_fields(cls, value: Mapping[str, Any]) -> Mapping[str, Any]:
        if taken := sorted(OWN_FIELDS & set(value)):
            raise ValueError(f"may not set {', '.join(taken)}: the run itself does")
        return value
