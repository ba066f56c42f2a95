"""The grader's network is not the agent's: each phase of a docker sandbox has its own (C56)."""

import asyncio

import pytest

from agentcompass.components.contracts.attempt import AttemptKey
from agentcompass.components.contracts.requirements import AllowedHosts, Network, Requirements
from agentcompass.components.contracts.sandbox import Environment, ExecResult, SandboxLabel
from agentcompass.components.environments.docker import Docker, DockerParameters
from tests.components.environments.docker_boxes import Site, gateway, without_proxies
from tests.components.environments.docker_engine import IMAGE, needs_engine

pytestmark = [needs_engine, pytest.mark.timeout(120)]


@pytest.fixture(autouse=True)
def _direct(monkeypatch: pytest.MonkeyPatch) -> None:
    without_proxies(monkeypatch)


# A grader's script that fetches its tool first, and says so when it cannot.
FETCH_TOOL = (
    'python3 -c "import urllib.request as u, sys; '
    'print(u.urlopen(sys.argv[1], timeout=10).read().decode())" {url} > tool'
)


async def works(env: Environment, url: str) -> ExecResult:
    return await env.exec(FETCH_TOOL.format(url=url))


@pytest.mark.parametrize(("off", "on"), [("none", "public"), ("allow nothing", "allow")])
@pytest.mark.parametrize("graded_online", [True, False])
def test_agent_and_grader_have_networks_of_their_own(
    off: str, on: str, graded_online: bool
) -> None:
    async def run() -> None:
        host = await gateway()
        with Site("the tool", "0.0.0.0") as site:
            offline = "none" if off == "none" else AllowedHosts(allow=())
            online = "public" if on == "public" else AllowedHosts(allow=(host,))
            phases = (offline, online) if graded_online else (online, offline)
            network = Network(run=phases[0], evaluation=phases[1])
            url = f"http://{host}:{site.port}/tool"
            label = SandboxLabel("c56", AttemptKey(task_id="c56", index=1))
            requirements = Requirements(image=IMAGE, network=network)
            async with Docker(DockerParameters()).open(requirements, label) as env:
                await env.enter("run")
                agent = await works(env, url)
                await env.exec(f"({FETCH_TOOL.format(url=url)}; sleep 60) >/dev/null 2>&1 &")
                await env.enter("evaluation")
                grader = await works(env, url)
            assert agent.ok is not graded_online
            assert grader.ok is graded_online
            failed = agent if graded_online else grader
            assert "URLError" in failed.stderr or "HTTPError" in failed.stderr
            if off != "none":
                assert "refuse" in failed.stderr.lower()

    asyncio.run(run())
