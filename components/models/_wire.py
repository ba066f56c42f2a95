"""The one way to the endpoint: a connection pool that keeps the address, the headers and the raw
reply in our hands, whichever library made the request.

litellm and the SDK under it are given clients over `PinnedTransport`. It sends what they made to
exactly the user's address, once per try, with our credentials only; and it keeps the reply as it
came. So neither a base URL rewritten by a library, nor a key found in the environment, nor a
re-send of theirs can happen; and what they make of a reply does not matter.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import httpx

from agentcompass.components.models._failures import RawReply

LARGEST_REPLY = 64 * 1024 * 1024
_TAKEN_HEADERS = ("content-type", "anthropic-version", "anthropic-beta")
_LOOPBACK = ("all://127.0.0.1", "all://localhost", "all://[::1]")


@dataclass
class Exchange:
    """One try: what is to be laid over the library's body, and what came of it."""

    overlay: Mapping[str, Any] = field(default_factory=dict)
    sent: bool = False
    reply: RawReply | None = None
    error: Exception | None = None


class Unwind(Exception):
    """Leaves the library at once; what happened stands in the exchange."""


_current: ContextVar[Exchange] = ContextVar("exchange")


class Wire:
    """The pool of one run. Proxy variables and SSL_CERT_FILE hold, loopback is always direct."""

    def __init__(self, url: str, headers: Mapping[str, str], connect_timeout: float) -> None:
        self._url, self._headers = url, dict(headers)
        self._timeout = httpx.Timeout(None, connect=connect_timeout)
        self._pool: httpx.AsyncClient | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    async def exchange(
        self, overlay: Mapping[str, Any], call: Callable[[], Awaitable[object]]
    ) -> Exchange:
        """Run a library's call; returns what happened on the wire.

        What the library makes of the reply is ignored. If it fails before anything was sent, its
        exception is the exchange's error.
        """
        exchange = Exchange(overlay)
        token = _current.set(exchange)
        try:
            await call()
        except Exception as error:  # any library's any error: the wire knows better what happened
            if exchange.reply is None and exchange.error is None:
                exchange.error = error
        finally:
            _current.reset(token)
        return exchange

    async def post(self, library: httpx.Request) -> RawReply:
        headers = {n: library.headers[n] for n in _TAKEN_HEADERS if n in library.headers}
        request = self._open_pool().build_request(
            "POST", self._url, content=library.content, headers=headers | self._headers
        )
        response = await self._open_pool().send(request, stream=True)
        try:
            body = bytearray()
            async for chunk in response.aiter_bytes():
                body += chunk
                if len(body) > LARGEST_REPLY:
                    raise httpx.ReadError("the reply is larger than 64 MiB")
        finally:
            await response.aclose()
        return RawReply(response.status_code, response.headers, bytes(body))

    async def close(self) -> None:
        pool, self._pool = self._pool, None
        if pool is not None and self._loop is asyncio.get_running_loop():
            await pool.aclose()

    def _open_pool(self) -> httpx.AsyncClient:
        loop = asyncio.get_running_loop()
        if self._pool is None or self._loop is not loop:  # sockets belong to the loop they grew in
            self._loop = loop
            self._pool = httpx.AsyncClient(
                timeout=self._timeout,
                limits=httpx.Limits(max_connections=None, max_keepalive_connections=100),
                mounts={pattern: httpx.AsyncHTTPTransport() for pattern in _LOOPBACK},
                headers={"user-agent": "agentcompass"},
            )
        return self._pool


class PinnedTransport(httpx.AsyncBaseTransport):
    """What libraries take for the network."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        exchange = _current.get()
        if exchange.sent:
            raise Unwind  # a re-send of the library's own: retrying is not its business
        exchange.sent = True
        await request.aread()
        try:
            exchange.reply = await self._wire.post(_overlaid(request, exchange.overlay))
        except Exception as error:  # kept for the caller; libraries would rename and retry it
            exchange.error = error
            raise Unwind from None
        if exchange.reply.status != 200:
            raise Unwind
        return httpx.Response(200, json=_reply_for_the_library(request.url.path))


def _reply_for_the_library(path: str) -> dict[str, Any]:
    """A least reply of the protocol. The true one is read by us; a library that read it as well
    would fail on odd ones, count missing tokens itself, and spend time on large ones."""
    if path.endswith("/chat/completions"):
        message = {"role": "assistant", "content": ""}
        choice = {"index": 0, "finish_reason": "stop", "message": message}
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        return {**_HEAD, "object": "chat.completion", "choices": [choice], "usage": usage}
    usage = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
    if path.endswith("/responses"):
        return {**_HEAD, "object": "response", "created_at": 0, "output": [], "usage": usage}
    answer = {"role": "assistant", "content": [], "stop_reason": "end_turn", "usage": usage}
    return {**_HEAD, "type": "message", **answer}


_HEAD = {"id": "none", "model": "none", "created": 0, "status": "completed"}


def _overlaid(request: httpx.Request, overlay: Mapping[str, Any]) -> httpx.Request:
    if not overlay:
        return request
    body = json.dumps(json.loads(request.content) | dict(overlay)).encode()
    headers = [(n, v) for n, v in request.headers.items() if n.lower() != "content-length"]
    return httpx.Request("POST", request.url, headers=headers, content=body)
