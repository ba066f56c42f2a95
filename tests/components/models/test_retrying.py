"""What is asked once, what is asked again, and that everything ends in time."""

import asyncio
import socket
import time
from typing import Any

import pytest

from agentcompass.components.contracts.errors import AgentCompassError, Code
from agentcompass.components.contracts.model import Message, ModelRequest
from agentcompass.components.contracts.usage import Usage
from agentcompass.components.models import _backoff
from agentcompass.components.models._client import ApiProvider
from tests.components.models.conversations import (
    KEY,
    PROTOCOLS,
    ask,
    attempt,
    provider,
    request,
    with_provider,
)
from tests.standins.model_endpoint import ModelServer
from tests.standins.model_script import Reply, RequestInfo

every_protocol = pytest.mark.parametrize("protocol", PROTOCOLS)
CONTEXT = (
    '{"error": {"message": "maximum context length is 10", "code": "context_length_exceeded"}}'
)


@pytest.fixture(autouse=True)
def _short_delays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_backoff, "LONGEST_DELAY", 0.05)


def failing(made: ApiProvider) -> AgentCompassError:
    with pytest.raises(AgentCompassError) as caught:
        ask(made)
    return caught.value


@every_protocol
@pytest.mark.parametrize(
    ("status", "body", "code"),
    [
        (401, None, Code.MODEL_AUTH),
        (404, None, Code.MODEL_NOT_FOUND),
        (400, None, Code.MODEL_BAD_REQUEST),
        (400, CONTEXT, Code.MODEL_CONTEXT_WINDOW),
        (429, '{"error": {"code": "insufficient_quota"}}', Code.MODEL_QUOTA),
    ],
)
def test_what_cannot_get_better_is_asked_once(
    protocol: str, status: int, body: str | None, code: Code
) -> None:
    with ModelServer(lambda _: Reply(status=status, body=body)) as server:
        assert failing(provider(protocol, server.base_url)).code is code
        assert len(server.requests) == 1


@every_protocol
def test_passing_faults_are_asked_again_until_they_pass(protocol: str) -> None:
    faults = [
        Reply(status=500),
        Reply(status=502, body="<html></html>", content_type="text/html"),
        Reply(reset=True),
        Reply(status=429),
        Reply(status=529, headers={"Retry-After": "0"}),
    ]

    def script(asked: RequestInfo) -> Reply:
        return faults[asked.number - 1] if asked.number <= len(faults) else Reply(text="fine")

    with ModelServer(script) as server:
        reply = ask(provider(protocol, server.base_url))
    assert reply.message.content == "fine"
    assert len(server.requests) == len(faults) + 1
    assert reply.waiting_seconds > 0


@every_protocol
@pytest.mark.parametrize(
    ("status", "code"), [(503, Code.MODEL_UNAVAILABLE), (429, Code.MODEL_RATE_LIMITED)]
)
def test_retries_end_in_time(protocol: str, status: int, code: Code) -> None:
    with ModelServer(lambda _: Reply(status=status)) as server:
        assert failing(provider(protocol, server.base_url, max_retry_seconds=2)).code is code
        assert len(server.requests) > 1


def test_without_retry_time_everything_is_asked_once() -> None:
    with ModelServer(lambda _: Reply(status=503)) as server:
        failing(provider("openai-chat", server.base_url, max_retry_seconds=0))
        assert len(server.requests) == 1


@every_protocol
def test_nobody_listening_is_unavailable(protocol: str) -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{held.getsockname()[1]}"
        error = failing(provider(protocol, url, max_retry_seconds=0))
    assert error.code is Code.MODEL_UNAVAILABLE
    assert "cannot connect" in str(error)


@every_protocol
@pytest.mark.parametrize(
    "silence",
    [Reply(text="x", hang=True), Reply(text="x", drip_seconds=5), Reply(text="x", stall=True)],
    ids=["hang", "drip", "stall"],
)
def test_a_silent_endpoint_is_a_timeout_and_its_socket_is_closed(
    protocol: str, silence: Reply
) -> None:
    with ModelServer(lambda _: silence) as server:
        made = provider(protocol, server.base_url, timeout=0.5, max_retry_seconds=0)
        began = time.monotonic()
        assert failing(made).code is Code.MODEL_TIMEOUT
        assert time.monotonic() - began < 20
        assert eventually(lambda: server.open_connections == 0 and server.in_flight == 0)


def test_cancelling_a_call_closes_its_socket_and_counts_it() -> None:
    with ModelServer(lambda _: Reply(hang=True)) as server:

        async def use(made: ApiProvider) -> Usage:
            client = made.client(attempt())
            call = asyncio.create_task(client.complete(request()))
            while server.in_flight == 0:
                await asyncio.sleep(0.01)
            assert client.pending_seconds > 0
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            assert client.pending_seconds == 0
            assert await asyncio.to_thread(eventually, lambda: server.open_connections == 0)
            return client.usage

        usage = with_provider(provider("openai-chat", server.base_url), use)
    assert usage == Usage(calls=1, uncounted_calls=1, unpriced_calls=1)


def test_a_refused_call_counts_and_leaves_nothing_unknown() -> None:
    with ModelServer(lambda _: Reply(status=400)) as server:

        async def use(made: ApiProvider) -> Usage:
            client = made.client(attempt())
            with pytest.raises(AgentCompassError):
                await client.complete(request())
            return client.usage

        assert with_provider(provider("openai-chat", server.base_url), use) == Usage(calls=1)


@every_protocol
def test_errors_name_address_model_and_words_but_no_secret(protocol: str) -> None:
    def script(asked: RequestInfo) -> Reply:
        return Reply(status=404, text=f"no such model; you sent {dict(asked.headers)}")

    with ModelServer(script) as server:
        base = server.base_url.replace("//", "//me:hidden-word@") + "?api-version=1&key=in-query"
        error = failing(provider(protocol, base, headers={"x-extra": "extra-secret"}))
    text = str(error)
    assert "/v1/" in text
    assert "api-version=1" in text
    assert "'some/model'" in text
    assert "no such model" in text
    for secret in (KEY, "hidden-word", "extra-secret", "in-query", "bWU6aGlkZGVuLXdvcmQ="):
        assert secret not in text
    assert error.__cause__ is None


def test_a_rate_limited_reply_makes_the_other_calls_wait_and_all_recover() -> None:
    began: list[float] = []  # not when the server started: a first call loads litellm

    def script(asked: RequestInfo) -> Reply:
        began.append(asked.at_seconds)
        if asked.at_seconds < began[0] + 1.5 and asked.number % 2:
            return Reply(status=429, headers={"Retry-After": "1"})
        return Reply(text="fine", delay_seconds=0.02)

    with ModelServer(script) as server:

        async def use(made: ApiProvider) -> Any:
            clients = [made.client(attempt(f"t{n}")) for n in range(8)]

            async def work(client: Any) -> float:
                for _ in range(6):
                    await client.complete(request())
                waited: float = client.waiting_seconds
                return waited

            waits = await asyncio.gather(*(work(client) for client in clients))
            server.most_in_flight = 0
            await asyncio.gather(*(client.complete(request()) for client in clients))
            return waits

        waits = with_provider(provider("openai-chat", server.base_url), use)
    assert min(waits) > 0.5  # those that were never refused themselves as well
    assert server.most_in_flight == 8


@every_protocol
def test_check_asks_once_and_needs_few_tokens(protocol: str) -> None:
    with ModelServer({}) as server:
        with_provider(provider(protocol, server.base_url), ApiProvider.check)
        body = server.requests[0].body
        assert body.get("max_tokens", body.get("max_output_tokens")) == 16
        assert len(server.requests) == 1


@every_protocol
@pytest.mark.parametrize(
    ("reply", "code"),
    [
        (Reply(status=401), Code.MODEL_AUTH),
        (Reply(status=404), Code.MODEL_NOT_FOUND),
        (Reply(status=503), Code.MODEL_UNAVAILABLE),
        (Reply(body="{}"), Code.MODEL_INVALID_REPLY),
        (Reply(status=429), None),
        (Reply(text=""), None),
    ],
)
def test_check_never_repeats_itself(protocol: str, reply: Reply, code: Code | None) -> None:
    with ModelServer(lambda _: reply) as server:
        made = provider(protocol, server.base_url)
        if code is None:
            with_provider(made, ApiProvider.check)
        else:
            with pytest.raises(AgentCompassError) as caught:
                with_provider(made, ApiProvider.check)
            assert caught.value.code is code
        assert len(server.requests) == 1


def test_closing_leaves_no_socket_and_a_provider_outlives_an_event_loop() -> None:
    with ModelServer({}) as server:
        made = provider("openai-chat", server.base_url)
        for _ in range(2):  # the first close is of another loop's pool
            assert with_provider(made, _complete) == "ok"
            assert eventually(lambda: server.open_connections == 0)


async def _complete(made: ApiProvider) -> str:
    return (await made.client(attempt()).complete(request())).message.content


def eventually(condition: Any) -> bool:
    for _ in range(500):
        if condition():
            return True
        time.sleep(0.02)
    return False


TOO_MUCH_ASKED = (
    '{"error": {"message": "\'max_tokens\' or \'max_completion_tokens\' is too large: 32768. This '
    "model's maximum context length is 32768 tokens and your request has 50 input tokens."
    '"}}'
)


def test_a_reply_budget_over_the_models_size_is_no_fault_of_the_agent() -> None:
    with ModelServer(lambda _: Reply(status=400, body=TOO_MUCH_ASKED)) as server:
        made = provider("openai-chat", server.base_url, max_tokens=32768)
        error = failing(made)
        assert error.code is Code.MODEL_BAD_REQUEST
        assert "lower max_tokens" in str(error)
        first, last = request("one", "two").messages  # a conversation that grew into the limit
        said = Message(role="assistant", content="an answer")
        later = ModelRequest(messages=(first, said, last))
        with pytest.raises(AgentCompassError) as caught:
            ask(made, later)
        assert caught.value.code is Code.MODEL_CONTEXT_WINDOW


def test_a_guard_before_an_endpoint_that_has_answered_refuses_one_prompt_not_the_key() -> None:
    refusing: list[bool] = []
    page = "<html><title>Attention Required</title></html>"

    def answer(info: RequestInfo) -> Reply:
        return Reply(status=403, body=page) if refusing else Reply(text="fine")

    async def use(made: ApiProvider) -> list[Code]:
        codes = []
        for _ in range(2):
            try:
                await made.client(attempt()).complete(request("hello"))
            except AgentCompassError as error:
                codes.append(error.code)
            refusing.append(True)
        return codes

    with ModelServer(answer) as server:
        made = provider("openai-chat", server.base_url)
        assert with_provider(made, use) == [Code.MODEL_BAD_REQUEST]
        assert failing(provider("openai-chat", server.base_url)).code is Code.MODEL_AUTH


def test_waiting_for_a_turn_at_a_busy_endpoint_gives_up_no_call() -> None:
    """Twelve calls at once at an endpoint that takes one at a time: longer than the bound."""
    busy_until = [0.0]

    def answer(info: RequestInfo) -> Reply:
        if time.monotonic() < busy_until[0]:
            return Reply(status=429)
        busy_until[0] = time.monotonic() + 0.3
        return Reply(text="done", delay_seconds=0.3)

    async def use(made: ApiProvider) -> list[str]:
        calls = [made.client(attempt(index=n)).complete(request("x")) for n in range(1, 13)]
        return [reply.message.content for reply in await asyncio.gather(*calls)]

    with ModelServer(answer) as server:
        made = provider("openai-chat", server.base_url, max_retry_seconds=2.5)
        assert with_provider(made, use) == ["done"] * 12
