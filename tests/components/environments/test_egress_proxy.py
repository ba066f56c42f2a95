"""The proxy of sandboxes with lists, over real sockets; a resolver of the tests' own."""

import asyncio
import contextlib

import pytest

from agentcompass.components.environments._docker import egress_proxy as _egress_proxy
from agentcompass.components.environments._docker.egress_proxy import CONNECTIONS
from tests.components.environments.egress_rig import (
    Outside,
    allow,
    answer,
    deny,
    dial,
    listening,
    proxy_for,
    tunnel,
)

pytestmark = pytest.mark.usefixtures("no_proxies")


def test_a_tunnel_passes_each_end_on_and_keeps_the_other_way_open() -> None:
    async def check() -> None:
        outside = Outside()
        async with listening(outside) as port, proxy_for(allow("allowed.localhost")) as proxy:
            reader, writer = await tunnel(proxy, f"allowed.localhost:{port}")
            sent = b"x" * 5_000_000
            writer.write(sent)
            writer.write_eof()
            async with asyncio.timeout(30):
                assert await reader.read() == b"received 5000000"
            assert outside.received == sent
            writer.close()

    asyncio.run(check())


def test_plain_http_goes_on_with_the_host_of_the_address() -> None:
    async def check() -> None:
        outside = Outside(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi")
        async with listening(outside) as port, proxy_for(allow("allowed.localhost")) as proxy:
            reply = await answer(
                proxy,
                f"GET http://allowed.localhost:{port}/a?b=c HTTP/1.1\r\nHost: other.example\r\n"
                "Proxy-Connection: keep-alive\r\nProxy-Authorization: Basic eA==\r\n"
                "Host : other.example\r\nX-Own: kept\r\n\r\n".encode(),
            )
            assert reply.endswith(b"\r\n\r\nhi")
            lines = outside.received.decode().strip().split("\r\n")
            assert lines[0] == "GET /a?b=c HTTP/1.1"
            assert sorted(lines[1:]) == [
                "Connection: close",
                f"Host: allowed.localhost:{port}",
                "X-Own: kept",
            ]

    asyncio.run(check())


def test_a_refusal_is_a_403_that_names_the_policy() -> None:
    async def check() -> None:
        async with proxy_for(allow("pypi.org")) as proxy:
            for first in (
                b"CONNECT github.com:443 HTTP/1.1\r\n\r\n",
                b"GET http://github.com:443/ HTTP/1.1\r\nHost: pypi.org\r\n\r\n",
            ):
                status, _, rest = (await answer(proxy, first)).partition(b"\r\n")
                assert status.startswith(b"HTTP/1.1 403 ")
                assert b"(allow: pypi.org) refuses github.com:443" in status
                assert b"(allow: pypi.org) refuses github.com:443" in rest
            await proxy.enforce(None)
            reply = await answer(proxy, b"CONNECT pypi.org:443 HTTP/1.1\r\n\r\n")
            assert reply.startswith(b"HTTP/1.1 403 ")

    asyncio.run(check())


@pytest.mark.parametrize(
    ("first", "status"),
    [
        (b"hello\r\n\r\n", b"400"),
        (b"GET / HTTP/1.1\r\nHost: pypi.org\r\n\r\n", b"400"),
        (b"CONNECT pypi.org HTTP/1.1\r\n\r\n", b"400"),
        (b"CONNECT pypi.org:99999 HTTP/1.1\r\n\r\n", b"400"),
        (b"CONNECT a@b:1 HTTP/1.1\r\n\r\n", b"400"),
        (b"GET http://user@pypi.org/ HTTP/1.1\r\n\r\n", b"400"),
        (b"\xff\xfe\x00 x\r\n\r\n", b"400"),
        (b"GET http://pypi.org/ HTTP/1.1\r\nX: y\nHost: other\r\n\r\n", b"400"),
        (b"GET http://pypi.org/ HTTP/1.1\r\nX: " + b"x" * 100_000, b"431"),
        (b"CONNECT missing.example.com:443 HTTP/1.1\r\n\r\n", b"502"),
    ],
)
def test_what_is_no_request_gets_a_clear_answer(first: bytes, status: bytes) -> None:
    async def check() -> bytes:
        async with proxy_for(allow("pypi.org", "missing.example.com")) as proxy:
            return await answer(proxy, first)

    assert asyncio.run(check()).startswith(b"HTTP/1.1 " + status)


def test_a_change_of_policy_cuts_what_an_earlier_one_opened() -> None:
    async def check() -> None:
        outside = Outside()
        async with listening(outside) as port, proxy_for(allow("allowed.localhost")) as proxy:
            reader, writer = await tunnel(proxy, f"allowed.localhost:{port}")
            writer.write(b"first")
            await proxy.enforce(allow("pypi.org"))
            async with asyncio.timeout(10):
                with contextlib.suppress(ConnectionError):
                    assert await reader.read() == b""
                await outside.ended.wait()
            writer.close()
            connect = f"CONNECT allowed.localhost:{port} HTTP/1.1\r\n\r\n".encode()
            assert b" 403 " in await answer(proxy, connect)
            assert outside.connections == 1

    asyncio.run(check())


def test_a_flood_of_connections_is_bounded_and_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_egress_proxy, "_HEAD_SECONDS", 1.0)

    async def check() -> None:
        outside = Outside(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi")
        get = "GET http://allowed.localhost:{}/ HTTP/1.1\r\n\r\n"
        async with listening(outside) as port, proxy_for(allow("allowed.localhost")) as proxy:
            silent = await asyncio.gather(*(dial(proxy, b"GET ") for _ in range(300)))
            replies = await asyncio.gather(
                *(reader.read() for reader, _ in silent), return_exceptions=True
            )
            texts = [reply for reply in replies if isinstance(reply, bytes)]
            waited = [text for text in texts if text.startswith(b"HTTP/1.1 408 ")]
            assert len(waited) == CONNECTIONS  # the others: 503, or reset before it was read
            assert all(text.startswith(b"HTTP/1.1 503 ") for text in texts if text not in waited)
            for _, writer in silent:
                writer.close()
            async with asyncio.timeout(20):
                while not (await answer(proxy, get.format(port).encode())).endswith(b"hi"):
                    await asyncio.sleep(0.1)

    asyncio.run(check())


def test_a_tunnel_in_which_nothing_moves_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_egress_proxy, "_IDLE_SECONDS", 0.3)

    async def check() -> None:
        async with listening(Outside()) as port, proxy_for(allow("allowed.localhost")) as proxy:
            reader, writer = await tunnel(proxy, f"allowed.localhost:{port}")
            async with asyncio.timeout(10):
                with contextlib.suppress(ConnectionError):
                    assert await reader.read() == b""
            writer.close()

    asyncio.run(check())


def test_a_side_that_does_not_read_holds_up_a_bounded_amount() -> None:
    async def check() -> None:
        sent = 0

        async def pour(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            nonlocal sent
            with contextlib.suppress(OSError):
                while sent < 200_000_000:
                    writer.write(b"x" * 65536)
                    await writer.drain()
                    sent += 65536

        server = await asyncio.start_server(pour, "127.0.0.1", 0)
        async with server, proxy_for(allow("allowed.localhost")) as proxy:
            port = server.sockets[0].getsockname()[1]
            _, writer = await tunnel(proxy, f"allowed.localhost:{port}")
            before = -1
            while sent != before:  # until it stands still
                before = sent
                await asyncio.sleep(0.3)
            assert sent < 100_000_000
            writer.close()

    asyncio.run(check())


def test_a_closed_proxy_refuses_connections() -> None:
    async def check() -> None:
        async with proxy_for(allow("pypi.org")) as proxy:
            port = int(proxy.url.rpartition(":")[2])
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", port)

    asyncio.run(check())


def test_the_proxy_of_this_machine_is_the_next_hop(monkeypatch: pytest.MonkeyPatch) -> None:
    async def check() -> None:
        outside = Outside(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi")
        listed = allow("unknown-here.test", "refused-there.test", "allowed.localhost")
        heads = []

        async def next_hop(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            head = await reader.readuntil(b"\r\n\r\n")
            heads.append(head.decode())
            if b"refused-there" in head:
                writer.write(b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n")
            elif head.startswith(b"CONNECT"):
                writer.write(b"HTTP/1.1 200 OK\r\n\r\nthrough")
            else:
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nplain")
            writer.close()

        server = await asyncio.start_server(next_hop, "127.0.0.1", 0)
        hop = f"http://me:p%40ss@127.0.0.1:{server.sockets[0].getsockname()[1]}"
        monkeypatch.setenv("HTTP_PROXY", hop)
        monkeypatch.setenv("HTTPS_PROXY", hop)
        monkeypatch.setenv("NO_PROXY", "localhost,.localhost")
        async with server, listening(outside) as port, proxy_for(listed) as proxy:
            reader, writer = await tunnel(proxy, "unknown-here.test:443")
            assert await reader.read() == b"through"
            writer.close()
            get = b"GET http://unknown-here.test:81/a HTTP/1.1\r\n\r\n"
            assert (await answer(proxy, get)).endswith(b"plain")
            refused = await answer(proxy, b"CONNECT refused-there.test:443 HTTP/1.1\r\n\r\n")
            assert refused.startswith(b"HTTP/1.1 502 ")
            assert b"the proxy of this machine answers HTTP/1.1 407" in refused
            other = await answer(proxy, b"CONNECT github.com:443 HTTP/1.1\r\n\r\n")
            assert other.startswith(b"HTTP/1.1 403 ")  # the policy holds before any hop
            get = f"GET http://allowed.localhost:{port}/ HTTP/1.1\r\n\r\n".encode()
            assert (await answer(proxy, get)).endswith(b"hi")  # NO_PROXY
        credentials = "Proxy-Authorization: Basic bWU6cEBzcw==\r\n"
        assert [head.split("\r\n")[0] for head in heads] == [
            "CONNECT unknown-here.test:443 HTTP/1.1",
            "GET http://unknown-here.test:81/a HTTP/1.1",
            "CONNECT refused-there.test:443 HTTP/1.1",
        ]
        assert all(credentials in head for head in heads)

    asyncio.run(check())


@pytest.mark.parametrize("host", ["169.254.169.254", "127.0.0.1", "localhost", "10.1.2.3"])
def test_a_next_hop_makes_no_address_reachable_that_is_refused(
    host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")

    async def check() -> bytes:
        async with proxy_for(deny("10.0.0.0/8:443")) as proxy:
            return await answer(proxy, f"CONNECT {host}:443 HTTP/1.1\r\n\r\n".encode())

    assert asyncio.run(check()).startswith(b"HTTP/1.1 403 ")
