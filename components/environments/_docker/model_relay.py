"""The way from inside a sandbox to the model endpoint, whatever the network policy.

A reverse HTTP proxy on a loopback port of the sandbox, served by our process: requests under the
endpoint's path go to the endpoint as they are, replies come back as they arrive (streams too).
Programs inside speak plain HTTP to it; TLS, proxy variables and SSL_CERT_FILE are this machine's,
as for our own model client. Keys pass through and are not looked at.
"""

import asyncio
import json
import os
import socket
import ssl
from collections.abc import AsyncIterator, Iterable
from functools import lru_cache
from urllib.parse import unquote

import h11
import httpx

from agentcompass.components.environments._docker.relay_server import BUFFER_BYTES, BoundedServer

CONNECTIONS = 256
_CONNECT_SECONDS = 30.0
_IDLE_SECONDS = 300.0
"""A connection kept open without a request."""
_LOOPBACK = ("all://127.0.0.1", "all://localhost", "all://[::1]", "all://0.0.0.0")
_PER_HOP = {
    b"connection",
    b"keep-alive",
    b"proxy-authenticate",
    b"proxy-authorization",
    b"proxy-connection",
    b"te",
    b"trailer",
    b"transfer-encoding",
    b"upgrade",
}

Header = tuple[bytes, bytes]


class ModelRelay:
    """For one endpoint in one sandbox."""

    def __init__(self, port: socket.socket, base_url: str) -> None:
        """Raises ValueError if `base_url` is not an http address."""
        try:
            self._base = httpx.URL(base_url)
        except httpx.InvalidURL as error:
            raise ValueError(str(error)) from error
        if self._base.scheme not in ("http", "https") or not self._base.host:
            raise ValueError("not an http:// or https:// address")
        self._prefix = self._base.raw_path.partition(b"?")[0].rstrip(b"/")
        full = b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        self._server = BoundedServer(port, self._serve, connections=CONNECTIONS, full=full)
        self._client: httpx.AsyncClient | None = None

    @property
    def address(self) -> str:
        """The endpoint's base URL for programs inside."""
        target = self._base.raw_path.decode("ascii")
        return f"http://127.0.0.1:{self._server.port}{'' if target == '/' else target}"

    async def start(self) -> None:
        """May be called again."""
        if self._client is None:
            self._client = self._connected()
        await self._server.start()

    def _connected(self) -> httpx.AsyncClient:
        trusted = _trusted(os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR"))
        return httpx.AsyncClient(
            timeout=httpx.Timeout(None, connect=_CONNECT_SECONDS),  # patience is the caller's
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=20),
            mounts={address: httpx.AsyncHTTPTransport(verify=trusted) for address in _LOOPBACK},
            verify=trusted,
        )

    async def close(self) -> None:
        await self._server.close()
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        inside = _Inside(reader, writer)
        while (request := await inside.request()) is not None:
            exchange = asyncio.ensure_future(self._exchange(inside, request))
            leaving = asyncio.ensure_future(inside.gone())
            try:
                await asyncio.wait({exchange, leaving}, return_when=asyncio.FIRST_COMPLETED)
                if not exchange.done():
                    return  # nobody waits for the reply: the endpoint is told by the cut
                if not exchange.result() or not inside.again():
                    return
            finally:
                exchange.cancel()
                leaving.cancel()
                await asyncio.gather(exchange, leaving, return_exceptions=True)

    async def _exchange(self, inside: "_Inside", request: h11.Request) -> bool:
        """False: the connection cannot be used again."""
        if not self._covers(request.target):
            body = _problem(f"only {self.address} and what is under it leads to the endpoint")
            await inside.reply(404, b"Not Found", _JSON, body)
            return False
        try:
            assert self._client is not None
            response = await self._client.send(self._outward(inside, request), stream=True)
        except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
            await self._unreachable(inside, error)
            return False
        try:
            headers = _passed(response.headers.raw)
            reason = response.extensions.get("reason_phrase", b"")
            await inside.reply(response.status_code, reason, headers, response.aiter_raw())
        except (httpx.HTTPError, h11.ProtocolError) as error:  # broke off in mid-reply
            raise ConnectionAbortedError(str(error)) from error
        finally:
            await response.aclose()
        return True

    def _outward(self, inside: "_Inside", request: h11.Request) -> httpx.Request:
        headers = [pair for pair in _passed(request.headers) if pair[0] not in (b"host", b"expect")]
        return httpx.Request(
            request.method.decode("ascii"),
            self._base.copy_with(raw_path=request.target),
            headers=headers,  # Host is set to the endpoint's
            content=inside.body() if _has_body(request) else None,
        )

    def _covers(self, target: bytes) -> bool:
        path = target.partition(b"?")[0]
        if not path.startswith(b"/"):
            return False
        steps = unquote(unquote(path.decode("latin-1"))).replace("\\", "/").split("/")
        if ".." in steps or "." in steps:
            return False
        return path == self._prefix or path.startswith(self._prefix + b"/")

    async def _unreachable(self, inside: "_Inside", error: Exception) -> None:
        place = f"{self._base.scheme}://{self._base.netloc.decode('ascii', 'replace')}"
        headers = list(_JSON)
        if "CERTIFICATE_VERIFY_FAILED" in str(error):
            headers.append((b"x-should-retry", b"false"))  # understood by the vendors' SDKs
        words = str(error) or type(error).__name__
        body = _problem(f"the model endpoint {place} cannot be reached from the host: {words}")
        await inside.reply(502, b"Bad Gateway", headers, body)


class _Inside:
    """The connection of a program in the sandbox: HTTP/1.1, one exchange after the other."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=BUFFER_BYTES)
        self._body_read = asyncio.Event()

    async def request(self) -> h11.Request | None:
        """The next one; None: there is none."""
        self._body_read.clear()
        try:
            async with asyncio.timeout(_IDLE_SECONDS):
                event = await self._next()
            if isinstance(event, h11.Request) and not _has_body(event):
                await self._next()  # its end
                self._body_read.set()
        except h11.RemoteProtocolError as error:
            if self._http.our_state in (h11.IDLE, h11.SEND_RESPONSE):
                body = _problem(f"not a valid request: {error}")
                await self.reply(error.error_status_hint, b"Bad Request", _JSON, body)
            return None
        return event if isinstance(event, h11.Request) else None

    async def body(self) -> AsyncIterator[bytes]:
        if self._http.they_are_waiting_for_100_continue:
            self._send(h11.InformationalResponse(status_code=100, headers=[]))
        try:
            while isinstance(event := await self._next(), h11.Data):
                yield bytes(event.data)
        except h11.RemoteProtocolError as error:
            raise EOFError("the program inside broke off its request") from error
        self._body_read.set()

    async def gone(self) -> None:
        """Returns when the program hung up, looked for once its request is in."""
        await self._body_read.wait()
        while len(self._http.trailing_data[0]) < BUFFER_BYTES:
            chunk = await self._reader.read(BUFFER_BYTES)
            if not chunk:
                return
            self._http.receive_data(chunk)  # the next request, early; kept for its turn
        await asyncio.Event().wait()

    async def reply(
        self,
        status: int,
        reason: bytes,
        headers: Iterable[Header],
        body: bytes | AsyncIterator[bytes],
    ) -> None:
        if isinstance(body, bytes):
            headers = [*headers, (b"content-length", str(len(body)).encode())]
        self._send(h11.Response(status_code=status, headers=list(headers), reason=reason))
        async for chunk in _chunks(body):
            self._send(h11.Data(data=chunk))
            await self._writer.drain()
        self._send(h11.EndOfMessage())
        await self._writer.drain()

    def again(self) -> bool:
        """Ready for another exchange; False: the connection has to end."""
        if self._http.our_state is not h11.DONE or self._http.their_state is not h11.DONE:
            return False
        self._http.start_next_cycle()
        return True

    async def _next(self) -> object:
        """An h11 event, or PAUSED."""
        while (event := self._http.next_event()) is h11.NEED_DATA:
            self._http.receive_data(await self._reader.read(BUFFER_BYTES))
        return event

    def _send(self, event: h11.Event) -> None:
        if data := self._http.send(event):
            self._writer.write(data)


async def _chunks(body: bytes | AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    if isinstance(body, bytes):
        yield body
        return
    async for chunk in body:
        yield chunk


_JSON: list[Header] = [(b"content-type", b"application/json")]


def _problem(message: str) -> bytes:
    """In the form in which the SDKs of OpenAI and Anthropic look for a message."""
    return json.dumps({"error": {"type": "agentcompass_relay", "message": message}}).encode()


def _has_body(request: h11.Request) -> bool:
    return any(name in (b"content-length", b"transfer-encoding") for name, _ in request.headers)


def _passed(headers: Iterable[Header]) -> list[Header]:
    """Without what concerns one connection only, named in Connection or by the standard."""
    lowered = [(name.lower(), value) for name, value in headers]
    named = {
        token.strip().lower()
        for name, value in lowered
        if name == b"connection"
        for token in value.split(b",")
    }
    return [pair for pair in lowered if pair[0] not in _PER_HOP | named]


@lru_cache(maxsize=4)
def _trusted(file: str | None, folder: str | None) -> ssl.SSLContext:
    """Reading certificates takes 20 ms; sandboxes share them while the variables stay."""
    return httpx.create_ssl_context()
