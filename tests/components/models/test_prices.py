from agentcompass.components.models._parameters import Prices
from agentcompass.components.models._usage import (
    Pricing,
    Tokens,
    anthropic_tokens,
    chat_tokens,
    responses_tokens,
)


def test_the_public_list_holds_for_the_makers_own_endpoints_only() -> None:
    tokens = Tokens(input=1_000_000, output=0)
    official = Pricing(None, "https://api.openai.com/v1/chat/completions", "gpt-4o-mini")
    assert official.known
    assert (official.cost(tokens) or 0) > 0
    assert not Pricing(None, "http://127.0.0.1/v1/chat/completions", "gpt-4o-mini").known
    assert not Pricing(None, "https://api.openai.com/v1/chat/completions", "no-such-model").known


def test_the_users_prices_win() -> None:
    pricing = Pricing(Prices(input=1, output=2), "https://api.openai.com/v1", "gpt-4o-mini")
    assert pricing.cost(Tokens(input=1_000_000, output=500_000, cached=500_000)) == 2.0


def test_each_protocols_counts() -> None:
    chat = {"prompt_tokens": 10, "completion_tokens": 4, "prompt_cache_hit_tokens": 6}
    assert chat_tokens(chat) == Tokens(input=10, output=4, cached=6)
    responses = {"input_tokens": 10, "output_tokens": 4}
    assert responses_tokens(responses) == Tokens(input=10, output=4)
    split = {
        "input_tokens": 1,
        "cache_read_input_tokens": 6,
        "cache_creation_input_tokens": 3,
        "output_tokens": 4,
    }
    assert anthropic_tokens(split) == Tokens(input=10, output=4, cached=6, cache_written=3)


def test_placeholders_are_not_counts() -> None:
    assert chat_tokens({"prompt_tokens": 0, "completion_tokens": 0}) is None
    assert chat_tokens({"prompt_tokens": "12", "completion_tokens": 3}) is None
    assert chat_tokens(None) is None
