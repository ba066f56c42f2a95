"""What a Daytona sandbox reaches in each phase. Addresses added to `lo` are the outside world."""

import asyncio
import random
import subprocess
import threading
from collections.abc import Awaitable, Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from agentcompass.components.contracts.errors import AgentCompassError, Code
from agentcompass.components.contracts.requirements import Requirements
from agentcompass.components.contracts.sandbox import Environment
from tests.components.environments.daytona_places import daytona, label, standing_in
from tests.standins.daytona_box import needs_sandboxes
from tests.standins.daytona_server import DaytonaServer

pytestmark = needs_sandboxes


class _Answers(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"reached")

    def log_message(self, format: str, *args: object) -> None:
        pass


class World:
    """Three hosts outside: by address, and as `a.test`, `b.test`, `c.b.test` inside."""

    def __init__(self) -> None:
        net = f"198.51.100.{random.randrange(60) * 4}"
        first = int(net.rpartition(".")[2])
        self.addresses = [f"198.51.100.{first + i}" for i in range(3)]
        self.names = dict(zip(("a.test", "b.test", "c.b.test"), self.addresses, strict=True))
        for address in self.addresses:
            subprocess.run(["ip", "addr", "add", f"{address}/32", "dev", "lo"], check=False)
        self._server = ThreadingHTTPServer(("0.0.0.0", 0), _Answers)
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    async def reached(self, env: Environment) -> str:
        """Which of the three, by number."""
        found = ""
        for number, host in enumerate(self.addresses):
            url = f"http://{host}:{self.port}/"
            line = f"import urllib.request as u; print(u.urlopen({url!r}, timeout=3).read())"
            found += str(number) if (await env.exec(["python3", "-c", line])).ok else ""
        return found

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        for address in self.addresses:
            subprocess.run(["ip", "addr", "del", f"{address}/32", "dev", "lo"], check=False)


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    world = World()
    yield world
    world.close()


@pytest.fixture(scope="module")
def server(world: World, tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaytonaServer]:
    with standing_in(tmp_path_factory.mktemp("daytona")) as server:
        server.names = world.names
        yield server


def inside(scenario: Callable[[Environment], Awaitable[None]], **network: object) -> None:
    async def run() -> None:
        required = Requirements.model_validate({"network": network})
        async with daytona().open(required, label()) as env:
            await scenario(env)

    asyncio.run(run())


def test_each_phase_has_its_policy(server: DaytonaServer, world: World) -> None:
    async def scenario(env: Environment) -> None:
        assert await world.reached(env) == "012"
        await env.enter("run")
        assert await world.reached(env) == ""
        await env.enter("evaluation")
        assert await world.reached(env) == "1"
        await env.enter("baseline")
        assert await world.reached(env) == "012"

    inside(scenario, run="none", evaluation={"allow": [world.addresses[1]]})


def test_an_allow_list_holds_from_the_start_and_is_replaced_whole(
    server: DaytonaServer, world: World
) -> None:
    async def scenario(env: Environment) -> None:
        assert await world.reached(env) == "0"
        await env.enter("run")
        assert await world.reached(env) == "2"
        await env.enter("evaluation")
        assert await world.reached(env) == "01"

    inside(
        scenario,
        baseline={"allow": [f"{world.addresses[0]}/32"]},
        run={"allow": ["*.b.test"]},
        evaluation={"allow": ["b.test", world.addresses[0]]},
    )


def test_a_public_model_stays_reachable_in_every_phase(server: DaytonaServer, world: World) -> None:
    async def scenario(env: Environment) -> None:
        await env.enter("run")
        url = "https://b.test/v1"
        assert await env.model_address(url) == url
        assert await world.reached(env) == "1"
        await env.enter("evaluation")
        assert await world.reached(env) == "012"

    inside(scenario, run="none")


@pytest.mark.parametrize("url", ["http://127.0.0.1:8000/v1", "http://localhost/v1", "http://box/"])
def test_a_model_that_only_this_machine_sees_is_refused(server: DaytonaServer, url: str) -> None:
    async def scenario(env: Environment) -> None:
        with pytest.raises(AgentCompassError, match="only this machine sees") as caught:
            await env.model_address(url)
        assert caught.value.code is Code.ENVIRONMENT_SETUP

    inside(scenario)


def test_a_policy_that_daytona_does_not_put_in_force_is_no_success(
    server: DaytonaServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def ignore(self: object, change: object) -> None:
        pass

    async def scenario(env: Environment) -> None:
        server.fail(".*/network-settings", 503, 1)  # passes
        await env.enter("run")
        monkeypatch.setattr("tests.standins.daytona_sandbox.StandinSandbox.apply_network", ignore)
        with pytest.raises(AgentCompassError, match="did not put the network policy"):
            await env.enter("evaluation")

    inside(scenario, run="none", evaluation="public")


def test_what_daytona_has_not_is_told_at_preflight(server: DaytonaServer) -> None:
    wanted = [
        {"run": {"deny": ["a.test"]}},
        {"run": {"allow": ["a.test:443"]}},
        {"evaluation": {"allow": ["::1"]}},
    ]
    requirements = [Requirements.model_validate({"network": network}) for network in wanted]
    problems = asyncio.run(daytona().preflight(requirements))
    assert len(problems) == 3
    for words in ("deny", "single ports", "IPv4"):
        assert any(words in problem for problem in problems)


def test_a_policy_that_cannot_hold_from_the_start_opens_nothing(server: DaytonaServer) -> None:
    async def scenario(env: Environment) -> None:
        pass

    before = len(server.ever)
    with pytest.raises(AgentCompassError, match="deny") as caught:
        inside(scenario, baseline={"deny": ["a.test"]})
    assert caught.value.code is Code.ENVIRONMENT_START
    assert len(server.ever) == before
