"""Odd and normal replies, the same way over every protocol."""

import asyncio
import json
from typing import Any

import pytest

from agentcompass.components.contracts.errors import AgentCompassError, Code
from agentcompass.components.contracts.model import Message, ModelRequest
from agentcompass.components.contracts.usage import Usage
from tests.components.models.conversations import (
    PROTOCOLS,
    TOOL,
    ask,
    attempt,
    provider,
    request,
    tool_loop,
    with_provider,
)
from tests.standins import model_script
from tests.standins.model_endpoint import ModelServer
from tests.standins.model_script import Reply

every_protocol = pytest.mark.parametrize("protocol", PROTOCOLS)


@every_protocol
def test_a_normal_reply(protocol: str) -> None:
    usage = model_script.Usage(input=100, cached=60, output=7, reasoning=3)
    with ModelServer(lambda _: Reply(text="42", usage=usage)) as server:
        reply = ask(provider(protocol, server.base_url))
    assert reply.message == Message(role="assistant", content="42")
    assert reply.finish_reason == "stop"
    assert reply.model_name == "some/model"
    assert (reply.usage.input_tokens, reply.usage.cached_input_tokens) == (100, 60)
    assert reply.usage.output_tokens == 7
    if protocol != "anthropic-messages":  # it counts thinking within the output only
        assert reply.usage.reasoning_tokens == 3
    assert (reply.usage.cost_usd, reply.usage.unpriced_calls) == (None, 1)
    assert reply.latency_seconds > 0


@every_protocol
def test_what_is_asked_arrives_as_the_user_set_it(protocol: str) -> None:
    with ModelServer({}) as server:
        made = provider(
            protocol,
            server.base_url,
            temperature=0.5,
            top_p=0.9,
            max_tokens=100,
            extra_body={"min_p": 0.1, "nested": {"a": None}},
            headers={"X-Team": "blue-team"},
        )
        assert ask(made, request("hello", tools=[TOOL])).finish_reason == "stop"
    body, headers = server.requests[0].body, server.requests[0].headers
    assert (body["model"], body["temperature"], body["top_p"]) == ("some/model", 0.5, 0.9)
    assert body.get("max_tokens", body.get("max_output_tokens")) == 100
    assert (body["min_p"], body["nested"]) == (0.1, {"a": None})
    assert len(body["tools"]) == 1
    assert headers["x-team"] == "blue-team"
    secret = headers.get("authorization", headers.get("x-api-key"))
    assert secret is not None
    assert secret.endswith("sk-very-secret-key")
    assert not {"openai-organization", "cookie"} & set(headers)


@every_protocol
def test_no_key_from_the_environment_is_ever_sent(
    protocol: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "OPENAI_ORG_ID", "ANTHROPIC_AUTH_TOKEN"):
        monkeypatch.setenv(name, "found-in-the-environment")
    with ModelServer({}) as server:
        ask(provider(protocol, server.base_url, key=None))
        ask(provider(protocol, server.base_url.replace("//", "//me:pass-word@"), key=None))
    assert "found-in-the-environment" not in str([r.headers for r in server.requests])
    assert "authorization" not in server.requests[0].headers
    assert server.requests[1].headers["authorization"] == "Basic bWU6cGFzcy13b3Jk"


@every_protocol
def test_a_request_lowers_the_users_limit_and_never_raises_it(protocol: str) -> None:
    with ModelServer({}) as server:
        for limit in (10, 1000):
            asked = request().model_copy(update={"max_tokens": limit})
            ask(provider(protocol, server.base_url, max_tokens=100), asked)
    sent = [r.body.get("max_tokens", r.body.get("max_output_tokens")) for r in server.requests]
    assert sent == [10, 100]


@every_protocol
def test_missing_token_counts_are_unknown_not_zero(protocol: str) -> None:
    with ModelServer(lambda _: Reply(text="x", usage=None)) as server:
        usage = ask(provider(protocol, server.base_url)).usage
    assert usage == Usage(calls=1, uncounted_calls=1, unpriced_calls=1)


@every_protocol
def test_the_users_prices_make_the_cost(protocol: str) -> None:
    prices = {"input": 2.0, "cached_input": 0.5, "output": 10.0}
    counts = model_script.Usage(input=1_000_000, cached=400_000, output=100_000)
    with ModelServer(lambda _: Reply(text="x", usage=counts)) as server:
        made = provider(protocol, server.base_url, prices=prices)
        assert made.prices_known
        usage = ask(made).usage
    assert usage.cost_usd == pytest.approx(0.6 * 2 + 0.4 * 0.5 + 1.0)
    assert usage.unpriced_calls == 0


@every_protocol
def test_empty_content_is_a_normal_reply(protocol: str) -> None:
    for text in (None, ""):
        with ModelServer(lambda _, text=text: Reply(text=text)) as server:
            reply = ask(provider(protocol, server.base_url))
        assert (reply.message.content, reply.message.tool_calls) == ("", ())
        assert len(server.requests) == 1


@every_protocol
@pytest.mark.parametrize("reason", ["length", "content_filter"])
def test_finish_reasons_are_mapped(protocol: str, reason: str) -> None:
    spelled = (
        "refusal" if (protocol, reason) == ("anthropic-messages", "content_filter") else reason
    )
    with ModelServer(lambda _: Reply(text="", finish_reason=spelled)) as server:
        assert ask(provider(protocol, server.base_url)).finish_reason == reason


def test_an_unknown_finish_reason_is_other() -> None:
    with ModelServer(lambda _: Reply(text="", finish_reason="tired")) as server:
        assert ask(provider("openai-chat", server.base_url)).finish_reason == "other"


@every_protocol
def test_an_answer_only_in_the_reasoning_is_an_empty_answer(protocol: str) -> None:
    with ModelServer(lambda _: Reply(text="", reasoning="it is 42")) as server:
        message = ask(provider(protocol, server.base_url)).message
    assert (message.content, message.reasoning) == ("", "it is 42")


@every_protocol
def test_of_two_calls_the_broken_one_says_so_and_the_conversation_goes_on(protocol: str) -> None:
    good: dict[str, Any] = {"name": "bash", "arguments": {"command": "ls"}, "id": "same"}
    bad = {"name": "bash", "arguments": '{"command": "l', "id": "same"}
    script = {"default": [{"tool_calls": [good, bad]}, "done"]}
    with ModelServer(script) as server:
        first, second = tool_loop(provider(protocol, server.base_url), 2)
    fine, broken = first.message.tool_calls
    assert fine.arguments == {"command": "ls"}
    assert (broken.arguments, fine.id) == (None, "same")
    assert broken.id != "same"
    assert "not valid JSON" in str(broken.problem)
    assert first.finish_reason == "tool_calls"
    assert second.message.content == "done"
    assert broken.id in json.dumps(server.requests[1].body)


@pytest.mark.parametrize(
    ("protocol", "body"),
    [
        ("openai-chat", '{"choices": []}'),
        ("openai-chat", '{"choices": [{"message": null}]}'),
        ("openai-chat", "{}"),
        ("openai-chat", "<html>hello</html>"),
        ("openai-chat", ""),
        ("openai-responses", '{"status": "completed"}'),
        ("anthropic-messages", '{"type": "message"}'),
    ],
)
def test_an_unreadable_reply_is_asked_for_three_times(protocol: str, body: str) -> None:
    with (
        ModelServer(lambda _: Reply(body=body)) as server,
        pytest.raises(AgentCompassError) as caught,
    ):
        ask(provider(protocol, server.base_url))
    assert caught.value.code is Code.MODEL_INVALID_REPLY
    assert len(server.requests) == 3


def test_a_readable_reply_after_an_unreadable_one_counts_both_calls() -> None:
    def script(asked: model_script.RequestInfo) -> Reply:
        return Reply(body='{"choices": []}') if asked.number == 1 else Reply(text="good")

    with ModelServer(script) as server:
        made = provider("openai-chat", server.base_url)

        async def use(made: Any) -> Usage:
            client = made.client(attempt())
            assert (await client.complete(request())).message.content == "good"
            used: Usage = client.usage
            return used

        usage = with_provider(made, use)
    assert (usage.calls, usage.uncounted_calls, usage.input_tokens) == (2, 1, 10)


@every_protocol
def test_half_surrogates_do_not_stop_a_request(protocol: str) -> None:
    with ModelServer({}) as server:
        ask(provider(protocol, server.base_url), request("broken \ud800 text \x00"))
    assert "broken \ufffd text \x00" in server.requests[0].first_user


def test_null_fields_of_earlier_reasoning_come_back_unchanged() -> None:
    details = [{"type": "reasoning.text", "text": None, "signature": "s", "index": 0}]
    message = {"role": "assistant", "content": "a", "reasoning_details": details}
    body = json.dumps({"choices": [{"message": message, "finish_reason": "stop"}]})
    with ModelServer(lambda _: Reply(body=body)) as server:
        made = provider("openai-chat", server.base_url)

        async def use(made: Any) -> None:
            client = made.client(attempt())
            first = await client.complete(request())
            turns = (*request().messages, first.message, *request("go on").messages)
            await client.complete(ModelRequest(messages=turns))

        with_provider(made, use)
    assert server.requests[1].body["messages"][1]["reasoning_details"] == details


@every_protocol
def test_nothing_is_printed_whatever_comes_back(
    protocol: str, capfd: pytest.CaptureFixture[str]
) -> None:
    bodies = ['{"choices": []}', "<html>", None]
    with ModelServer(lambda asked: Reply(body=bodies[asked.number - 1], status=200)) as server:
        made = provider(protocol, server.base_url)

        async def use(made: Any) -> None:
            await made.client(attempt()).complete(request())
            await asyncio.sleep(0.2)  # litellm logs in the background

        with_provider(made, use)
    assert len(server.requests) == 3
    assert capfd.readouterr() == ("", "")
