"""What an endpoint's refusal or silence means: a code, a line, and whether asking again helps."""

import email.utils
import json
import re
import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

import httpx

from agentcompass.components.contracts.errors import Code

LONGEST_RETRY_AFTER = 50.0
"""Seconds. Longer demands are asked again after this: they are often stale or wrong, and a model
that recovered must not stand idle for minutes."""


class Retry(Enum):
    NO = "no"  # asked once
    RATE = "rate"  # the whole provider backs off
    TRANSIENT = "transient"  # this call backs off
    REPLY = "reply"  # a reply that cannot be read: a few more asks


@dataclass(frozen=True)
class Failure:
    code: Code
    words: str
    """The endpoint's own, or the transport's; not yet masked."""
    retry: Retry
    retry_after: float | None = None
    """Seconds the endpoint asked for, capped."""
    perhaps_billed: bool = False
    """The request was sent and may have been worked on."""


@dataclass(frozen=True)
class RawReply:
    status: int
    headers: Mapping[str, str]
    body: bytes


class UnreadableReply(Exception):
    """A reply with status 200 that is not what the protocol promises."""


def failure_of_reply(reply: RawReply) -> Failure | None:
    """None if the reply is to be read as an answer."""
    document = _json(reply.body)
    error = _error(document)
    if reply.status == 200 and error is None:
        if isinstance(document, dict):
            return None
        return Failure(
            Code.MODEL_INVALID_REPLY,
            f"the reply is not a JSON object: {_excerpt(reply)}",
            Retry.REPLY,
            perhaps_billed=True,
        )
    words = _words(error) if error is not None else _excerpt(reply)
    status = reply.status if reply.status != 200 else _status_inside(error)
    return _classified(status, words, _text(error, words), _retry_after(reply.headers))


def failure_of_exception(error: Exception) -> Failure:
    """What went wrong on the way, by httpx's classes."""
    words = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    if isinstance(error, TimeoutError):
        return Failure(Code.MODEL_TIMEOUT, words, Retry.TRANSIENT, perhaps_billed=True)
    if _is_certificate(error):
        return Failure(
            Code.MODEL_UNAVAILABLE,
            f"its certificate is not trusted ({error}); SSL_CERT_FILE may name your own authority",
            Retry.NO,
        )
    connecting = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.ProxyError)
    if isinstance(error, connecting):
        return Failure(Code.MODEL_UNAVAILABLE, f"cannot connect ({words})", Retry.TRANSIENT)
    if isinstance(error, httpx.TransportError | OSError):
        return Failure(
            Code.MODEL_UNAVAILABLE,
            f"the connection broke ({words})",
            Retry.TRANSIENT,
            perhaps_billed=True,
        )
    if isinstance(error, httpx.DecodingError):
        words = f"its reply cannot be unpacked ({words})"
        return Failure(Code.MODEL_INVALID_REPLY, words, Retry.REPLY, perhaps_billed=True)
    return Failure(Code.MODEL_BAD_REQUEST, words, Retry.NO)


_QUOTA = re.compile(
    r"insufficient[_ ](quota|balance|credits|funds)|billing_hard_limit|credit balance is too low"
    r"|quota_exceeded|exceeded your current quota|billing_not_active|payment required"
    r"|(out of|not enough|no) credits"
)
_PASSING_QUOTA = re.compile(r"retry in|retrydelay|per ?(minute|second)|please retry after")
_CONTEXT = re.compile(
    r"context[_ ]length|context[_ ]window|maximum context|max_context|context limit"
    r"|available context size|exceeds? the context|prompt is too long|input is too long"
    r"|too many (input )?tokens|(prompt|input|request).{0,40}(exceeds|longer than).{0,60}tokens?\b"
    r"|reduce the length|max_prompt_tokens|input token count.{0,40}exceeds"
    r"|exceed.{0,30}max(imum)?[_ ](model[_ ]len|input|seq)"
)
_NO_MODEL = re.compile(
    r"model_not_found|not_found_error|invalid model name|unknown model|no such model"
    r"|model\b.{0,80}\b(does not exist|not found|not exist|is not available|is not supported"
    r"|not a valid model)|not a valid model"
)
_FILTER = re.compile(
    r"content_filter|content_policy|content management policy|requires moderation"
    r"|(was|been) flagged|usage guidelines|safety_check"
)
_BY_WORDS: tuple[tuple[re.Pattern[str], int], ...] = (
    (re.compile(r"rate_limit|rate limit|too many requests|overloaded"), 429),
    (re.compile(r"authentication_error|invalid_api_key|permission_error|unauthorized"), 401),
    (re.compile(r"invalid_request_error|invalid_request|bad request"), 400),
    (re.compile(r"server_error|api_error|internal|unavailable|upstream|timeout|timed out"), 500),
)


def _classified(status: int | None, words: str, text: str, retry_after: float | None) -> Failure:
    if status is not None and str(status) not in words:
        words = f"status {status}, {words}"
    passing = retry_after is not None or _PASSING_QUOTA.search(text)
    if status == 402 or (_QUOTA.search(text) and ("insufficient" in text or not passing)):
        return Failure(Code.MODEL_QUOTA, words, Retry.NO)
    if status in (429, 529):
        return Failure(Code.MODEL_RATE_LIMITED, words, Retry.RATE, retry_after)
    if status == 403 and _FILTER.search(text):  # one prompt is refused, not the key
        return Failure(Code.MODEL_CONTENT_FILTER, words, Retry.NO)
    if status in (401, 403, 407):
        return Failure(Code.MODEL_AUTH, words, Retry.NO)
    if _CONTEXT.search(text):
        return Failure(Code.MODEL_CONTEXT_WINDOW, words, Retry.NO)
    if status is None:
        return Failure(
            Code.MODEL_INVALID_REPLY,
            f"status 200 with an error: {words}",
            Retry.REPLY,
            perhaps_billed=True,
        )
    if status in (408, 409, 425) or status >= 500:
        code = Code.MODEL_TIMEOUT if status in (408, 504) else Code.MODEL_UNAVAILABLE
        return Failure(code, words, Retry.TRANSIENT, retry_after, perhaps_billed=True)
    if status == 404 or _NO_MODEL.search(text):
        return Failure(Code.MODEL_NOT_FOUND, words, Retry.NO)
    if _FILTER.search(text):
        return Failure(Code.MODEL_CONTENT_FILTER, words, Retry.NO)
    return Failure(Code.MODEL_BAD_REQUEST, words, Retry.NO)


def _status_inside(error: object) -> int | None:
    """The status an error object stands for when the reply itself said 200."""
    if isinstance(error, Mapping):
        for name in ("code", "status", "status_code"):
            value = error.get(name)
            number = int(value) if isinstance(value, str) and value.isdigit() else value
            if isinstance(number, int) and 400 <= number < 600:
                return number
    text = _text(error, "")
    if _NO_MODEL.search(text):
        return 404
    return next((status for pattern, status in _BY_WORDS if pattern.search(text)), None)


def _error(document: Any) -> Any:
    """The error part of a reply in any of the usual shapes, or None."""
    if not isinstance(document, dict):
        return None
    if document.get("error"):
        return document["error"]
    if document.get("type") == "error" or document.get("object") == "error":
        return document
    choices = document.get("choices")
    if isinstance(choices, list) and choices and isinstance(choices[0], dict):
        return _error_of_choice(choices[0])
    if not {"choices", "output", "content"} & set(document):
        return document.get("detail") or (document if "message" in document else None)
    return None


def _error_of_choice(choice: Mapping[str, Any]) -> Any:
    """What a router says of the endpoint behind it, with status 200 and an empty message."""
    if choice.get("error"):
        return choice["error"]
    message = choice.get("message")
    said = isinstance(message, dict) and (message.get("content") or message.get("tool_calls"))
    if choice.get("finish_reason") == "error" and not said:
        return "upstream error: the reply's finish_reason is 'error', and it says nothing"
    return None


def _words(error: object) -> str:
    if isinstance(error, Mapping):
        parts = [error.get("message") or error.get("msg") or error.get("detail")]
        parts += [error.get("code") or error.get("type")]
        shown = [str(p) for p in parts if p]
        return f"{shown[0]} ({shown[1]})" if len(shown) > 1 else (shown or [json.dumps(error)])[0]
    return error if isinstance(error, str) else json.dumps(error)


def _text(error: object, words: str) -> str:
    whole = error if isinstance(error, str) else json.dumps(error) if error is not None else words
    return whole.lower()


def _excerpt(reply: RawReply) -> str:
    text = reply.body[:4_000].decode("utf-8", errors="replace").strip()
    status = "" if reply.status == 200 else f"status {reply.status}, "
    if 300 <= reply.status < 400:
        return f"it redirects to {reply.headers.get('location', 'nowhere')}; use that address"
    if not text:
        return f"{status}empty body"
    if "<html" in text.lower() or "<!doctype" in text.lower():
        title = re.search(r"<title>(.*?)</title>", text, re.IGNORECASE | re.DOTALL)
        return f"{status}an HTML page ({title[1].strip() if title else 'without a title'})"
    return status + text[:400]


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds asked for by `Retry-After` (seconds or HTTP date) or `retry-after-ms`, capped."""
    seconds: float | None = None
    try:
        if (milliseconds := headers.get("retry-after-ms")) is not None:
            seconds = float(milliseconds) / 1000
        elif (value := headers.get("retry-after")) is not None:
            try:
                seconds = float(value)
            except ValueError:
                seconds = email.utils.parsedate_to_datetime(value).timestamp() - time.time()
    except (ValueError, OverflowError):
        return None
    if seconds is None or seconds != seconds:
        return None
    return min(max(seconds, 0.0), LONGEST_RETRY_AFTER)


def _is_certificate(error: BaseException | None) -> bool:
    while error is not None:
        if isinstance(error, ssl.SSLCertVerificationError):
            return True
        if "CERTIFICATE_VERIFY_FAILED" in str(error):
            return True
        error = error.__cause__ or error.__context__
    return False


def _json(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None
