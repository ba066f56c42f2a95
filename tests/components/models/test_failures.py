import email.utils
import json
import time

import httpx
import pytest

from agentcompass.components.contracts.errors import Code
from agentcompass.components.models._failures import (
    LONGEST_RETRY_AFTER,
    Failure,
    RawReply,
    Retry,
    failure_of_exception,
    failure_of_reply,
)


def failure(status: int, body: object, **headers: str) -> Failure:
    data = body.encode() if isinstance(body, str) else json.dumps(body).encode()
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    found = failure_of_reply(RawReply(status, httpx.Headers(named), data))
    assert found is not None
    return found


def openai(message: str, **fields: object) -> dict[str, object]:
    return {"error": {"message": message, **fields}}


CASES: list[tuple[int, object, Code, Retry]] = [
    (401, openai("Incorrect API key provided"), Code.MODEL_AUTH, Retry.NO),
    (403, "", Code.MODEL_AUTH, Retry.NO),
    (
        403,
        openai("This model requires moderation and your input was flagged for violence"),
        Code.MODEL_CONTENT_FILTER,
        Retry.NO,
    ),
    (
        403,
        {"code": "x", "error": "Content violates usage guidelines. Failed check: SAFETY_CHECK_A"},
        Code.MODEL_CONTENT_FILTER,
        Retry.NO,
    ),
    (
        200,
        {"choices": [{"finish_reason": "error", "error": {"code": 502, "message": "bad gateway"}}]},
        Code.MODEL_UNAVAILABLE,
        Retry.TRANSIENT,
    ),
    (
        200,
        {"choices": [{"finish_reason": "error", "message": {"role": "assistant", "content": ""}}]},
        Code.MODEL_UNAVAILABLE,
        Retry.TRANSIENT,
    ),
    (404, openai("no", code="model_not_found"), Code.MODEL_NOT_FOUND, Retry.NO),
    (400, openai("The model `x` does not exist"), Code.MODEL_NOT_FOUND, Retry.NO),
    (
        400,
        openai("This model's maximum context length is 8192", code="context_length_exceeded"),
        Code.MODEL_CONTEXT_WINDOW,
        Retry.NO,
    ),
    (
        400,
        {
            "type": "error",
            "error": {
                "type": "invalid_request_error",
                "message": "prompt is too long: 210000 tokens > 200000 maximum",
            },
        },
        Code.MODEL_CONTEXT_WINDOW,
        Retry.NO,
    ),
    (400, "the request exceeds the available context size", Code.MODEL_CONTEXT_WINDOW, Retry.NO),
    (
        400,
        openai("input length and `max_tokens` exceed context limit: 1 + 2 > 2"),
        Code.MODEL_CONTEXT_WINDOW,
        Retry.NO,
    ),
    (
        400,
        openai("The input token count (40000) exceeds the maximum number of tokens allowed"),
        Code.MODEL_CONTEXT_WINDOW,
        Retry.NO,
    ),
    (400, openai("temperature is out of range"), Code.MODEL_BAD_REQUEST, Retry.NO),
    (422, {"detail": [{"msg": "field required"}]}, Code.MODEL_BAD_REQUEST, Retry.NO),
    (400, openai("filtered", code="content_filter"), Code.MODEL_CONTENT_FILTER, Retry.NO),
    (429, openai("slow down"), Code.MODEL_RATE_LIMITED, Retry.RATE),
    (529, openai("Overloaded", type="overloaded_error"), Code.MODEL_RATE_LIMITED, Retry.RATE),
    (
        429,
        openai("You exceeded your current quota", code="insufficient_quota"),
        Code.MODEL_QUOTA,
        Retry.NO,
    ),
    (402, openai("Payment required"), Code.MODEL_QUOTA, Retry.NO),
    (400, openai("Your credit balance is too low"), Code.MODEL_QUOTA, Retry.NO),
    (
        429,
        openai("You exceeded your current quota. Please retry in 20s"),
        Code.MODEL_RATE_LIMITED,
        Retry.RATE,
    ),
    (500, "", Code.MODEL_UNAVAILABLE, Retry.TRANSIENT),
    (502, "<html><title>Bad gateway</title></html>", Code.MODEL_UNAVAILABLE, Retry.TRANSIENT),
    (504, "", Code.MODEL_TIMEOUT, Retry.TRANSIENT),
    (308, "", Code.MODEL_BAD_REQUEST, Retry.NO),
    (200, openai("x", type="rate_limit_error"), Code.MODEL_RATE_LIMITED, Retry.RATE),
    (200, openai("x", code=401), Code.MODEL_AUTH, Retry.NO),
    (200, openai("maximum context length"), Code.MODEL_CONTEXT_WINDOW, Retry.NO),
    (200, openai("no idea"), Code.MODEL_INVALID_REPLY, Retry.REPLY),
    (200, openai("x", type="server_error"), Code.MODEL_UNAVAILABLE, Retry.TRANSIENT),
    (200, "not json", Code.MODEL_INVALID_REPLY, Retry.REPLY),
    (200, "[]", Code.MODEL_INVALID_REPLY, Retry.REPLY),
    (200, "", Code.MODEL_INVALID_REPLY, Retry.REPLY),
]


@pytest.mark.parametrize(("status", "body", "code", "retry"), CASES)
def test_each_refusal_has_its_code(status: int, body: object, code: Code, retry: Retry) -> None:
    found = failure(status, body)
    assert (found.code, found.retry) == (code, retry)


def test_an_answer_is_no_failure() -> None:
    body = b'{"choices": [], "error": null}'
    assert failure_of_reply(RawReply(200, httpx.Headers(), body)) is None


def test_retry_after_in_seconds_milliseconds_and_as_a_date_is_capped() -> None:
    assert failure(429, "", retry_after="5").retry_after == 5
    assert failure(429, "", retry_after_ms="1500").retry_after == 1.5
    assert failure(429, "", retry_after="86400").retry_after == LONGEST_RETRY_AFTER
    assert failure(429, "", retry_after="-3").retry_after == 0
    assert failure(429, "", retry_after="soon").retry_after is None
    in_twenty = email.utils.formatdate(time.time() + 20, usegmt=True)
    seconds = failure(429, "", retry_after=in_twenty).retry_after
    assert seconds is not None
    assert 15 < seconds <= 20


def test_the_endpoints_own_words_are_kept() -> None:
    assert (
        failure(400, openai("bad seed", code="invalid")).words == "status 400, bad seed (invalid)"
    )
    html = failure(502, "<html><head><title>502 Bad Gateway</title></head></html>")
    assert html.words == "status 502, an HTML page (502 Bad Gateway)"
    assert "https://h/v1" in failure(308, "", location="https://h/v1").words


def test_transport_faults_have_their_codes() -> None:
    certificate = httpx.ConnectError("[SSL: CERTIFICATE_VERIFY_FAILED] self-signed certificate")
    assert failure_of_exception(certificate).retry is Retry.NO
    assert "certificate" in failure_of_exception(certificate).words
    refused = failure_of_exception(httpx.ConnectError("refused"))
    assert (refused.code, refused.retry) == (Code.MODEL_UNAVAILABLE, Retry.TRANSIENT)
    assert not refused.perhaps_billed
    broken = failure_of_exception(httpx.RemoteProtocolError("disconnected"))
    assert (broken.retry, broken.perhaps_billed) == (Retry.TRANSIENT, True)
    assert failure_of_exception(ValueError("no such parameter")).code is Code.MODEL_BAD_REQUEST
