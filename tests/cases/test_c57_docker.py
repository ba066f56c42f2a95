"""Endpoints that only this machine sees are reached from inside docker, or it says why (C57)."""

import asyncio
import json
import logging
from pathlib import Path
from typing import Any

import pytest

from agentcompass.components.contracts.attempt import AttemptKey
from agentcompass.components.contracts.requirements import Network, Requirements
from agentcompass.components.contracts.sandbox import SandboxLabel
from agentcompass.components.environments.docker import Docker, DockerParameters
from tests.components.environments.docker_boxes import Site, gateway, without_proxies
from tests.components.environments.docker_engine import IMAGE, needs_engine
from tests.components.environments.own_authority import own_certificate
from tests.standins.model_endpoint import ModelServer
from tests.standins.model_script import Reply

pytestmark = [needs_engine, pytest.mark.timeout(120)]
KEY = "zz-key-of-the-tests"
POLICIES = Network(baseline="public", run="none", evaluation="public")

# As an agent's own client: prints the status and what came, piece by piece.
ASK = """
import json, sys, urllib.error, urllib.request
address, key, stream = sys.argv[1], sys.argv[2], len(sys.argv) > 3
body = {"model": "m", "messages": [{"role": "user", "content": "hello"}], "stream": stream}
request = urllib.request.Request(
    address + "/chat/completions", json.dumps(body).encode(),
    {"Authorization": "Bearer " + key, "Content-Type": "application/json"},
)
try:
    with urllib.request.urlopen(request, timeout=20) as reply:
        print(reply.status)
        for line in reply:
            print(line.decode().rstrip())
except urllib.error.HTTPError as error:
    print(error.code, error.headers.get("x-should-retry"))
    print(error.read().decode())
"""


def asked(base_url: str, *, stream: bool = False) -> list[str]:
    """What a program inside gets in each phase; the address must not change."""

    async def run() -> list[str]:
        requirements = Requirements(image=IMAGE, network=POLICIES)
        label = SandboxLabel("c57", AttemptKey(task_id="c57", index=1))
        async with Docker(DockerParameters()).open(requirements, label) as env:
            address = await env.model_address(base_url)
            said = []
            for phase in ("run", "evaluation"):
                await env.enter(phase)  # type: ignore[arg-type]
                assert await env.model_address(base_url) == address
                argv = ["python3", "-c", ASK, address, KEY, *(["stream"] if stream else [])]
                result = await env.exec(argv, timeout_seconds=60)
                assert result.ok, result.stderr
                said.append(result.stdout)
        return said

    return asyncio.run(run())


@pytest.fixture(autouse=True)
def _direct(monkeypatch: pytest.MonkeyPatch) -> None:
    without_proxies(monkeypatch)


@pytest.mark.parametrize(
    ("listens", "called"),
    [("127.0.0.1", "127.0.0.1"), ("127.0.0.1", "localhost"), ("0.0.0.0", "127.0.0.1")]
    + [("0.0.0.0", "0.0.0.0"), ("::1", "[::1]")],
)
def test_a_server_of_this_machine_is_reached(listens: str, called: str) -> None:
    with Site("an answer", listens) as site:
        replies = asked(f"http://{called}:{site.port}/v1")
    assert replies == ["200\nan answer\n"] * 2
    assert site.visits == ["/v1/chat/completions"] * 2


def test_a_stream_comes_through_with_the_key_which_is_logged_nowhere(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    with ModelServer(lambda request: Reply(text="one two three")) as endpoint:
        for reply in asked(endpoint.base_url, stream=True):
            status, *lines = reply.splitlines()
            assert status == "200"
            assert "data: [DONE]" in lines
            events = [line for line in lines if line.startswith("data: {")]
            text = "".join(
                choice["delta"].get("content") or ""
                for event in events
                for choice in json.loads(event[6:])["choices"]
            )
            assert text == "one two three"
        assert [request.path for request in endpoint.requests] == ["/v1/chat/completions"] * 2
        for request in endpoint.requests:
            headers = {name.lower(): value for name, value in request.headers.items()}
            assert headers["authorization"] == f"Bearer {KEY}"
            assert not {"ssl_verify", "verify", "ca"} & set(request.body)
    assert KEY not in caplog.text


@pytest.mark.parametrize("excepted", [True, False])
def test_proxy_variables_of_this_machine_hold_for_programs_inside(
    monkeypatch: pytest.MonkeyPatch, excepted: bool
) -> None:
    host = asyncio.run(gateway())
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    if excepted:
        monkeypatch.setenv("NO_PROXY", host)
    with Site("an answer", "0.0.0.0") as site:
        for reply in asked(f"http://{host}:{site.port}/v1"):
            if excepted:
                assert reply == "200\nan answer\n"
            else:
                assert reply.startswith("502 ")
                assert f"the model endpoint http://{host}:{site.port} cannot be reached" in reply


@pytest.mark.parametrize("given", [True, False])
def test_an_own_certificate_authority(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: bool
) -> None:
    certificate, context = own_certificate(tmp_path)
    monkeypatch.delenv("SSL_CERT_DIR", raising=False)
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    if given:
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    with Site("an answer", "127.0.0.1").secured(context) as site:
        for reply in asked(f"https://localhost:{site.port}/v1"):
            if given:
                assert reply == "200\nan answer\n"
            else:  # said once, and not to be tried again
                assert reply.startswith("502 false\n")
                assert "certificate" in reply.lower()


def test_a_server_that_is_down_is_named() -> None:
    for reply in asked("http://127.0.0.1:9/v1"):
        error: dict[str, Any] = json.loads(reply.split("\n", 1)[1])["error"]
        assert "http://127.0.0.1:9 cannot be reached from the host" in error["message"]
