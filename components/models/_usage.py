"""Token counts as endpoints report them, and what they cost."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from agentcompass.components.contracts.usage import Usage
from agentcompass.components.models._parameters import Prices

UNKNOWN = Usage(calls=1, uncounted_calls=1, unpriced_calls=1)
"""A call that may have been worked on, and told nothing."""
REFUSED = Usage(calls=1)
"""A call the endpoint refused: nothing was generated, nothing is unknown."""

_MOST_TOKENS = 10**12
"""No call has more; a larger count is a fault of the endpoint, and so unknown."""

_LISTED_HOSTS = {
    "api.openai.com": "openai",
    "api.anthropic.com": "anthropic",
    "api.deepseek.com": "deepseek",
    "api.mistral.ai": "mistral",
    "api.groq.com": "groq",
    "api.together.xyz": "together_ai",
    "api.fireworks.ai": "fireworks_ai",
    "api.x.ai": "xai",
    "openrouter.ai": "openrouter",
    "generativelanguage.googleapis.com": "gemini",
}
"""Hosts whose prices the public list holds. Elsewhere the same model name may cost anything."""


@dataclass(frozen=True)
class Tokens:
    input: int
    output: int
    cached: int | None = None
    cache_written: int | None = None
    reasoning: int | None = None


class Pricing:
    """The user's prices, else the public list's for its own hosts, else none."""

    def __init__(self, prices: Prices | None, url: str, model: str) -> None:
        self._prices, self._model = prices, model
        self._provider = _LISTED_HOSTS.get(urlsplit(url).hostname or "")

    @property
    def known(self) -> bool:
        """For a listed host the first look imports litellm."""
        return self.cost(Tokens(input=1, output=1)) is not None

    def usage(self, tokens: Tokens | None) -> Usage:
        if tokens is None:
            return UNKNOWN
        cost = self.cost(tokens)
        return Usage(
            calls=1,
            input_tokens=tokens.input,
            cached_input_tokens=tokens.cached,
            output_tokens=tokens.output,
            reasoning_tokens=tokens.reasoning,
            cost_usd=cost,
            unpriced_calls=int(cost is None),
        )

    def cost(self, tokens: Tokens) -> float | None:
        """US dollars."""
        if self._prices is not None:
            return user_cost(self._prices, tokens)
        return self._listed_cost(tokens) if self._provider else None

    def _listed_cost(self, tokens: Tokens) -> float | None:
        from agentcompass.components.models._litellm import load

        try:
            prompt, completion = load().cost_per_token(
                model=self._model,
                custom_llm_provider=self._provider,
                prompt_tokens=tokens.input,
                completion_tokens=tokens.output,
                cache_read_input_tokens=tokens.cached or 0,
                cache_creation_input_tokens=tokens.cache_written or 0,
            )
        except Exception:  # litellm raises a bare Exception for a model it does not know
            return None
        total = float(prompt) + float(completion)
        return total if total > 0 else None  # 0 in the list stands for "not known"


def user_cost(prices: Prices, tokens: Tokens) -> float:
    cached = tokens.cached or 0
    cached_price = prices.input if prices.cached_input is None else prices.cached_input
    fresh = max(0, tokens.input - cached)
    return (fresh * prices.input + cached * cached_price + tokens.output * prices.output) / 1e6


def count(source: object, *path: str) -> int | None:
    """A token count at a path of nested mappings; None if it is missing or no count."""
    for name in path:
        source = source.get(name) if isinstance(source, Mapping) else None
    if isinstance(source, bool) or not isinstance(source, int | float):
        return None
    return int(source) if 0 <= source <= _MOST_TOKENS else None  # NaN compares to nothing


def chat_tokens(usage: Any) -> Tokens | None:
    """OpenAI chat's `usage`; DeepSeek's spelling of cached tokens too."""
    given = count(usage, "prompt_tokens")
    made = count(usage, "completion_tokens")
    if not given or made is None:  # no prompt has 0 tokens: such counts are placeholders
        return None
    cached = count(usage, "prompt_tokens_details", "cached_tokens")
    reasoning = count(usage, "completion_tokens_details", "reasoning_tokens")
    if reasoning and count(usage, "total_tokens") == given + made + reasoning:
        made += reasoning  # xAI counts reasoning apart from the completion; others within it
    return Tokens(
        input=given,
        output=made,
        cached=count(usage, "prompt_cache_hit_tokens") if cached is None else cached,
        reasoning=reasoning,
    )


def responses_tokens(usage: Any) -> Tokens | None:
    given, made = count(usage, "input_tokens"), count(usage, "output_tokens")
    if not given or made is None:
        return None
    return Tokens(
        input=given,
        output=made,
        cached=count(usage, "input_tokens_details", "cached_tokens"),
        reasoning=count(usage, "output_tokens_details", "reasoning_tokens"),
    )


def anthropic_tokens(usage: Any) -> Tokens | None:
    """Anthropic counts fresh, cache-read and cache-written prompt tokens apart."""
    fresh, made = count(usage, "input_tokens"), count(usage, "output_tokens")
    if fresh is None or made is None:
        return None
    cached = count(usage, "cache_read_input_tokens")
    written = count(usage, "cache_creation_input_tokens")
    total = fresh + (cached or 0) + (written or 0)
    return Tokens(total, made, cached, written) if total else None
