"""What a sandbox reaches, phase by phase. A server on this machine is the outside world."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

from agentcompass.components.contracts.requirements import Network
from agentcompass.components.contracts.sandbox import Environment
from tests.conformance.sandbox import SandboxScenarios

_BODY = b"the outside world\n"


class NetworkConformance(SandboxScenarios):
    """A sandbox speaks HTTP over bash's own /dev/tcp: no more programs are needed."""

    def test_every_phase_may_be_entered_and_changes_nothing_under_public(self) -> None:
        async def scenario(env: Environment) -> None:
            await env.exec("(while :; do echo x >> beat; sleep 0.1; done) & echo kept > file")
            for phase in ("run", "evaluation"):
                await env.enter(phase)  # type: ignore[arg-type]
                assert await env.read_file("file") == b"kept\n"
                before = (await env.exec("wc -c < beat")).stdout
                await asyncio.sleep(0.5)
                assert (await env.exec("wc -c < beat")).stdout != before

        self.inside(scenario)

    def test_without_a_network_nothing_outside_is_reached(self) -> None:
        self._needs_none()
        with outside() as port:
            url = f"http://{self.outside_host()}:{port}/"

            async def scenario(env: Environment) -> None:
                assert await fetched(env, url) == ""
                for address in ("http://1.1.1.1:80/", "http://example.com:80/"):
                    assert await fetched(env, address) == ""

            self.inside(scenario, network=Network(baseline="none"))

    def test_loopback_inside_works_without_a_network(self) -> None:
        self._needs_none()

        async def scenario(env: Environment) -> None:
            if not (await env.exec("command -v python3")).ok:
                return
            await env.write_file("index.html", b"from inside")
            await env.exec("python3 -m http.server 8765 --bind 127.0.0.1 >/dev/null 2>&1 &")
            for _ in range(100):
                if shown := await fetched(env, "http://127.0.0.1:8765/index.html"):
                    break
                await asyncio.sleep(0.1)
            assert shown.endswith("from inside")

        self.inside(scenario, network=Network(baseline="none"))

    def test_the_policy_changes_from_phase_to_phase(self) -> None:
        self._needs_none()
        self.needs(self.provider().capabilities.network_phases, "another network in each phase")
        with outside() as port:
            url = f"http://{self.outside_host()}:{port}/"

            async def scenario(env: Environment) -> None:
                assert (await fetched(env, url)).endswith(_BODY.decode())
                await env.write_file("file", b"kept")
                await env.enter("run")
                assert await fetched(env, url) == ""
                assert await env.read_file("file") == b"kept"
                await env.write_file("of the agent", b"kept too")
                await env.enter("evaluation")
                assert (await fetched(env, url)).endswith(_BODY.decode())
                assert await env.read_file("of the agent") == b"kept too"

            self.inside(scenario, network=Network(run="none", evaluation="public"))

    def test_what_runs_already_keeps_nothing_of_the_earlier_policy(self) -> None:
        self._needs_none()
        self.needs(self.provider().capabilities.network_phases, "another network in each phase")
        with outside() as port:
            host = self.outside_host()

            async def scenario(env: Environment) -> None:
                line = (
                    f"exec 4<>/dev/tcp/{host}/{port}; "  # a connection of the earlier phase
                    f"(while :; do (exec 3<>/dev/tcp/{host}/{port} && echo x >> reached) "
                    "2>/dev/null; sleep 0.1; done) >/dev/null 2>&1 & true"
                )
                await env.exec(line)
                while not (await env.exec("test -s reached")).ok:
                    await asyncio.sleep(0.1)
                await env.enter("run")
                before = (await env.exec("wc -c < reached")).stdout
                await asyncio.sleep(1.5)
                assert (await env.exec("wc -c < reached")).stdout == before

            self.inside(scenario, network=Network(run="none"))

    def test_the_model_is_reached_under_every_policy(self) -> None:
        capabilities = self.provider().capabilities
        self.needs(capabilities.model_address, "the model's address inside")
        policies = ["public", *(["none"] if "none" in capabilities.network else [])]
        with outside("127.0.0.1") as port:
            for policy in policies:

                async def scenario(env: Environment) -> None:
                    await env.enter("run")
                    address = await env.model_address(f"http://127.0.0.1:{port}/v1")
                    shown = await asyncio.gather(
                        *(fetched(env, f"{address}/models") for _ in range(4))
                    )
                    for text in shown:
                        assert "GET /v1/models" in text
                        assert text.endswith(_BODY.decode())

                self.inside(scenario, network=Network.model_validate({"run": policy}))

    def _needs_none(self) -> None:
        self.needs("none" in self.provider().capabilities.network, "a sandbox without a network")


async def fetched(env: Environment, url: str) -> str:
    """The whole HTTP answer; "" if there is none."""
    parts = urlsplit(url)
    request = f"GET {parts.path or '/'} HTTP/1.0\\r\\nHost: {parts.netloc}\\r\\n\\r\\n"
    line = f"exec 3<>/dev/tcp/{parts.hostname}/{parts.port} && printf '{request}' >&3 && cat <&3"
    result = await env.exec(["bash", "-c", line], timeout_seconds=10)
    return result.stdout


@contextmanager
def outside(address: str = "0.0.0.0") -> Iterator[int]:  # noqa: S104
    """The port of a server on this machine; it answers with what it was asked."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(self.requestline.encode() + b"\n" + _BODY)

        def log_message(self, *_: object) -> None: ...

    server = ThreadingHTTPServer((address, 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
