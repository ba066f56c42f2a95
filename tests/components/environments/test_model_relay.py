"""The relay to the model endpoint, against real endpoints on loopback."""

import asyncio
import contextlib
import json
import socket
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
from aiohttp import web

from agentcompass.components.environments._docker.model_relay import ModelRelay
from tests.components.environments.own_authority import own_certificate


class Endpoint:
    """Echoes what it was asked; `/v1/stream` sends a word, and the next when told to."""

    def __init__(self) -> None:
        self.further = asyncio.Event()
        self.hung_up = asyncio.Event()
        self.seen: list[str] = []

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.seen.append(request.raw_path)
        if request.path == "/v1/stream":
            return await self._stream(request)
        if request.path == "/v1/silent":
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                self.hung_up.set()
                raise
        if request.path == "/v1/broken":
            reply = web.StreamResponse(headers={"content-length": "100"})
            await reply.prepare(request)
            await reply.write(b"ten bytes.")
            assert request.transport is not None
            request.transport.abort()
            return reply
        body = await request.read()
        return web.json_response(
            {
                "method": request.method,
                "path": request.raw_path,
                "headers": dict(request.headers),
                "size": len(body),
            },
            status=429 if request.path == "/v1/busy" else 200,
            headers={"x-request-id": "r1", "set-cookie": "a=b", "retry-after": "7"},
        )

    async def _stream(self, request: web.Request) -> web.StreamResponse:
        reply = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await reply.prepare(request)
        await reply.write(b"data: one\n\n")
        await self.further.wait()
        await reply.write(b"data: two\n\n")
        return reply


@contextlib.asynccontextmanager
async def serving(
    endpoint: Endpoint, host: str = "127.0.0.1", tls: ssl.SSLContext | None = None
) -> AsyncIterator[int]:
    application = web.Application(client_max_size=64 * 1024 * 1024)
    application.router.add_route("*", "/{tail:.*}", endpoint.answer)
    runner = web.AppRunner(application, handler_cancellation=True)
    await runner.setup()
    site = web.TCPSite(runner, host, 0, ssl_context=tls, shutdown_timeout=0.1)
    await site.start()
    try:
        yield runner.addresses[0][1]
    finally:
        endpoint.further.set()
        await runner.cleanup()


@contextlib.asynccontextmanager
async def relayed(base_url: str) -> AsyncIterator[str]:
    port = socket.socket()
    port.bind(("127.0.0.1", 0))
    relay = ModelRelay(port, base_url)
    await relay.start()
    try:
        yield relay.address
    finally:
        await relay.close()


@contextlib.asynccontextmanager
async def program() -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(trust_env=False, timeout=20) as client:
        yield client


def test_requests_go_to_the_endpoint_as_they_are() -> None:
    async def check() -> None:
        async with (
            serving(Endpoint()) as port,
            relayed(f"http://127.0.0.1:{port}/v1/") as address,
            program() as client,
        ):
            sent = {"authorization": "Bearer key", "x-api-key": "key2", "te": "trailers"}
            reply = await client.post(
                f"{address.rstrip('/')}/chat/completions?a=%2Fb",
                content=b"x" * 3_000_000,
                headers=sent,
            )
            seen = reply.json()
            assert (seen["method"], seen["size"]) == ("POST", 3_000_000)
            assert seen["path"] == "/v1/chat/completions?a=%2Fb"
            headers = {name.lower(): value for name, value in seen["headers"].items()}
            assert headers["host"] == f"127.0.0.1:{port}"
            assert (headers["authorization"], headers["x-api-key"]) == ("Bearer key", "key2")
            assert headers["user-agent"].startswith("python-httpx")
            assert "te" not in headers
            assert (reply.headers["x-request-id"], reply.headers["set-cookie"]) == ("r1", "a=b")

            async def chunks() -> AsyncIterator[bytes]:
                for _ in range(10):
                    yield b"y" * 1000

            assert (await client.post(f"{address}chat", content=chunks())).json()["size"] == 10_000
            client.cookies.clear()
            busy = await client.get(f"{address}busy")
            assert (busy.status_code, busy.headers["retry-after"]) == (429, "7")
            assert "Cookie" not in busy.json()["headers"]
            assert (await client.head(f"{address}x")).status_code == 200

    asyncio.run(check())


def test_the_address_keeps_path_and_query() -> None:
    async def check() -> str:
        async with relayed("https://models.example.com/team/v1?api-version=1") as address:
            return address

    address = asyncio.run(check())
    assert address.startswith("http://127.0.0.1:")
    assert address.endswith("/team/v1?api-version=1")


def test_a_stream_arrives_while_it_is_sent() -> None:
    async def check() -> None:
        endpoint = Endpoint()
        async with (
            serving(endpoint) as port,
            relayed(f"http://localhost:{port}/v1") as address,
            program() as client,
            client.stream("POST", f"{address}/stream", json={}) as reply,
        ):
            events = reply.aiter_bytes()
            assert await anext(events) == b"data: one\n\n"
            endpoint.further.set()
            assert await anext(events) == b"data: two\n\n"
            with pytest.raises(StopAsyncIteration):
                await anext(events)

    asyncio.run(check())


def test_a_program_that_hangs_up_ends_its_request_at_the_endpoint() -> None:
    async def check() -> None:
        endpoint = Endpoint()
        async with (
            serving(endpoint) as port,
            relayed(f"http://127.0.0.1:{port}/v1") as address,
            program() as client,
        ):
            with pytest.raises(httpx.ReadTimeout):
                await client.post(f"{address}/silent", json={}, timeout=0.5)
            async with asyncio.timeout(10):
                await endpoint.hung_up.wait()

    asyncio.run(check())


def test_a_reply_that_breaks_off_does_not_look_complete() -> None:
    async def check() -> None:
        async with (
            serving(Endpoint()) as port,
            relayed(f"http://127.0.0.1:{port}/v1") as address,
            program() as client,
        ):
            with pytest.raises(httpx.TransportError):
                await client.get(f"{address}/broken")
            assert (await client.get(f"{address}/after")).status_code == 200

    asyncio.run(check())


@pytest.mark.parametrize(
    "target",
    [
        "/",
        "/admin",
        "/v1x/chat",
        "/v1/../admin",
        "/v1/%2e%2e/admin",
        "/v1/%252e%252e/admin",
        "/v1/..%5cadmin",
        "http://127.0.0.1:1/v1/chat",
    ],
)
def test_nothing_beside_the_endpoint_is_reached(target: str) -> None:
    async def check() -> None:
        endpoint = Endpoint()
        async with serving(endpoint) as port, relayed(f"http://127.0.0.1:{port}/v1") as address:
            reader, writer = await asyncio.open_connection("127.0.0.1", httpx.URL(address).port)
            writer.write(f"GET {target} HTTP/1.1\r\nHost: h\r\n\r\n".encode())
            reply = await reader.read()
            assert reply.startswith(b"HTTP/1.1 404 ")
            writer.close()
            assert endpoint.seen == []

    asyncio.run(check())


def test_an_endpoint_that_is_down_is_a_502_that_says_so() -> None:
    async def check() -> None:
        async with relayed("http://127.0.0.1:9/v1") as address, program() as client:
            reply = await client.post(f"{address}/chat", json={}, headers={"x-api-key": "hush"})
            assert reply.status_code == 502
            message = reply.json()["error"]["message"]
            assert "http://127.0.0.1:9 cannot be reached from the host" in message
            assert "hush" not in reply.text

    asyncio.run(check())


def test_garbage_gets_a_400() -> None:
    async def check() -> None:
        async with relayed("http://127.0.0.1:9/v1") as address:
            reader, writer = await asyncio.open_connection("127.0.0.1", httpx.URL(address).port)
            writer.write(b"\x00garbage\r\n\r\n")
            assert (await reader.read()).startswith(b"HTTP/1.1 400 ")
            writer.close()

    asyncio.run(check())


@pytest.mark.parametrize("base_url", ["ftp://host/v1", "host:80/v1", "http://", "http://[::1"])
def test_what_is_no_address_is_refused(base_url: str) -> None:
    with socket.socket() as port:
        port.bind(("127.0.0.1", 0))
        with pytest.raises(ValueError, match=r"."):
            ModelRelay(port, base_url)


@pytest.mark.parametrize("given", [True, False])
def test_an_own_authority_counts_where_the_variable_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: bool
) -> None:
    certificate, context = own_certificate(tmp_path)
    monkeypatch.delenv("SSL_CERT_DIR", raising=False)
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    if given:
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))

    async def check() -> httpx.Response:
        async with (
            serving(Endpoint(), tls=context) as port,
            relayed(f"https://localhost:{port}/v1") as address,
            program() as client,
        ):
            return await client.get(f"{address}/x")

    reply = asyncio.run(check())
    if given:
        assert reply.status_code == 200
    else:
        assert reply.status_code == 502
        assert reply.headers["x-should-retry"] == "false"
        assert "certificate" in json.loads(reply.text)["error"]["message"].lower()


def test_proxy_variables_of_the_host_hold_but_not_for_loopback(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)

    async def check() -> None:
        async with (
            serving(Endpoint()) as port,
            relayed(f"http://127.0.0.1:{port}/v1") as loopback,
            relayed("http://model.example.com/v1") as elsewhere,
            program() as client,
        ):
            assert (await client.get(f"{loopback}/x")).status_code == 200
            assert (await client.get(f"{elsewhere}/x")).status_code == 502

    asyncio.run(check())
