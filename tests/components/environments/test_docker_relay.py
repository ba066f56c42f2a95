"""The ports handed over from sandboxes: nothing is left of them, whatever ends in between."""

import asyncio
import contextlib
import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agentcompass.components.contracts.errors import AgentCompassError, Code
from agentcompass.components.contracts.requirements import (
    Network,
    Requirements,
)
from agentcompass.components.environments._docker import relay_image as _relay_image
from agentcompass.components.environments._docker.engine import Engine
from agentcompass.components.environments._docker.network import network_problems
from agentcompass.components.environments._docker.relay_ports import (
    open_ports,
    remove_stale_socket_dirs,
    stale_socket_dirs,
)
from agentcompass.components.environments.docker import Docker, DockerParameters
from tests.components.environments.docker_boxes import (
    ONLY_ALLOWED,
    TEST_LABEL,
    Box,
    box,
    labelled,
    until,
)
from tests.components.environments.docker_engine import IMAGE, needs_engine

pytestmark = [needs_engine, pytest.mark.timeout(240), pytest.mark.usefixtures("no_proxies")]


def _relays(client: Any, label: str) -> list[dict[str, Any]]:
    return [
        found
        for found in labelled(client, label)
        if found["Labels"].get("agentcompass.purpose") == "relay"
    ]


@pytest.mark.parametrize("after_seconds", [0.0, 0.01, 0.03, 0.06, 0.1, 0.15])
def test_a_cancelled_change_leaves_nothing(after_seconds: float) -> None:
    async def check() -> None:
        engine = Engine()
        async with box(Network(baseline="public", run=ONLY_ALLOWED)) as sandbox:
            label = f"{TEST_LABEL}={after_seconds}"
            sandbox.network._labels = {TEST_LABEL: str(after_seconds)}
            before = _sockets()
            entering = asyncio.ensure_future(sandbox.network.enter("run"))
            await asyncio.sleep(after_seconds)
            entering.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await entering
            await sandbox.network.close()
            await until(lambda: not _relays(engine.client(), label))
            assert _sockets() <= before

    asyncio.run(check())


@pytest.mark.parametrize("after_seconds", [0.0, 0.05, 0.1])
def test_a_close_in_the_middle_of_a_change_leaves_nothing(after_seconds: float) -> None:
    async def check() -> None:
        async with box(Network(baseline="none", run=ONLY_ALLOWED)) as sandbox:
            before = _sockets()
            entering = asyncio.ensure_future(sandbox.network.enter("run"))
            addressing = asyncio.ensure_future(sandbox.network.model_address("http://[::1]:1/v1"))
            await asyncio.sleep(after_seconds)
            await sandbox.network.close()
            for under_way in await asyncio.gather(entering, addressing, return_exceptions=True):
                assert under_way is None or isinstance(under_way, AgentCompassError | str)
            await sandbox.network.close()
            assert _sockets() <= before

    asyncio.run(check())


def _sockets() -> int:
    """Internet sockets of this process with a port of their own, whatever their network."""
    count = 0
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208
        try:
            if not stat.S_ISSOCK(os.fstat(int(name)).st_mode):
                continue
            with socket.socket(fileno=os.dup(int(name))) as found:
                count += found.family == socket.AF_INET and found.getsockname()[1] > 0
        except OSError:
            continue  # the listing's own descriptor
    return count


KILLED = """
import asyncio, sys
from agentcompass.components.contracts.requirements import AllowedHosts, Network
from agentcompass.components.environments._docker.engine import Engine
from agentcompass.components.environments._docker.network import SandboxNetwork
from agentcompass.components.environments._docker import relay_ports as _relay_ports
if sys.argv[2] == "opening":
    def wait(*_):
        print("now", flush=True)
        import time
        time.sleep(600)
    _relay_ports._received = wait
async def main():
    network = Network(baseline=AllowedHosts(allow=("a.b",)))
    labels = {"agentcompass.test.network": sys.argv[2]}
    sandbox = SandboxNetwork(Engine(), sys.argv[1], network, labels)
    await sandbox.enter("baseline")
    print(sandbox.variables()["http_proxy"], flush=True)
    await asyncio.sleep(600)
asyncio.run(main())
"""


@pytest.mark.parametrize("when", ["opening", "open"])
def test_killed_processes_leave_nothing(
    when: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)

    async def check() -> None:
        async with box(Network(baseline="none")) as sandbox:
            owner = subprocess.Popen(
                [sys.executable, "-c", KILLED, sandbox.container, when],
                stdout=subprocess.PIPE,
                text=True,
            )
            try:
                assert owner.stdout is not None
                said = await asyncio.to_thread(owner.stdout.readline)
                assert said.strip()
                if when == "open":
                    refused = await fetched_through(sandbox, said.strip())
                    assert "403" in refused
                assert stale_socket_dirs() == ()
            finally:
                owner.send_signal(signal.SIGKILL)
                owner.wait()
                assert owner.stdout is not None
                owner.stdout.close()
            client = sandbox.engine.client()
            await until(lambda: not _relays(client, f"{TEST_LABEL}={when}"))
            if when == "open":
                assert "Connection refused" in await fetched_through(sandbox, said.strip())
            assert stale_socket_dirs() == ()  # one made just now may not be locked yet
            for folder in tmp_path.iterdir():
                os.utime(folder, (0, 0))
            assert len(stale_socket_dirs()) == (1 if when == "opening" else 0)
            remove_stale_socket_dirs()
            assert list(tmp_path.iterdir()) == []

    asyncio.run(check())


async def fetched_through(sandbox: Box, proxy: str) -> str:
    variables = {"http_proxy": proxy}
    return await sandbox.python(
        "import urllib.request\ntry: urllib.request.urlopen('http://a.test/', timeout=5)\n"
        "except OSError as error: print(error)",
        env=variables,
    )


LISTS = [Requirements(network=Network(run=ONLY_ALLOWED))]


def test_preflight_asks_the_engine_only_where_a_list_is_wanted() -> None:
    async def check() -> None:
        nowhere = Engine("unix:///nowhere/docker.sock")
        plain = [Requirements(), Requirements(network=Network(baseline="none"))]
        assert await network_problems(nowhere, plain) == []
        assert len(await network_problems(nowhere, LISTS)) == 1
        assert await network_problems(Engine(), LISTS) == []

    asyncio.run(check())


def test_the_provider_s_preflight_tells_of_it() -> None:
    provider = Docker(DockerParameters(relay_image="local/missing:1"))
    listed = Requirements(image=IMAGE, network=Network(evaluation=ONLY_ALLOWED))
    plain = Requirements(image=IMAGE)
    assert asyncio.run(provider.preflight([plain])) == []
    assert "relay_image local/missing:1" in asyncio.run(provider.preflight([plain, listed]))[0]


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("unshare"), reason="needs root")
def test_preflight_names_an_engine_that_does_not_see_our_files(tmp_path: Path) -> None:
    ask = (
        "import asyncio\n"
        "from tests.components.environments.test_docker_relay import LISTS, Engine\n"
        "from agentcompass.components.environments._docker.network import network_problems\n"
        "print(asyncio.run(network_problems(Engine(), LISTS)))"
    )
    hidden = f'mount -t tmpfs none {tmp_path} && TMPDIR={tmp_path} exec "$@"'
    said = subprocess.run(
        ["unshare", "-m", "sh", "-c", hidden, "sh", sys.executable, "-c", ask],
        capture_output=True,
        text=True,
        timeout=100,
        check=True,
        cwd=Path(__file__).parents[3],
    ).stdout
    assert "a Docker engine that runs on this machine" in said
    assert "does not see the files of this machine" in said


@pytest.mark.parametrize("run", ["public", "none"])
def test_without_a_relay_only_what_is_public_is_reached(run: Any) -> None:
    async def check() -> None:
        policies = Network(baseline="public", run=run)
        async with box(policies, relay_image="local/missing:1") as sandbox:
            refused = ["http://127.0.0.1:8000/v1", "http://localhost/v1", "http://[::1]:80/v1"]
            elsewhere = "https://models.example.com/v1"
            if run == "public":
                assert await sandbox.network.model_address(elsewhere) == elsewhere
            else:
                refused.append(elsewhere)
            for base_url in refused:
                with pytest.raises(AgentCompassError, match="relay_image") as raised:
                    await sandbox.network.model_address(base_url)
                assert raised.value.code is Code.ENVIRONMENT_SETUP

    asyncio.run(check())


def test_another_image_may_carry_the_relay() -> None:
    async def check() -> None:
        engine = Engine()
        assert await network_problems(engine, LISTS, relay_image=IMAGE) == []
        missing = await network_problems(engine, LISTS, relay_image="local/missing:1")
        assert missing == [
            "relay_image local/missing:1 is not in the engine; pull it",
        ]
        bare = await engine.call(lambda client: _relay_image.relay_image(client, None).name)
        unfit = await network_problems(engine, LISTS, relay_image=bare)  # no `python3` in its PATH
        assert len(unfit) == 1
        assert "the relay does not start" in unfit[0]

    asyncio.run(check())


def test_the_relay_s_image_is_made_once_and_again_when_it_was_pruned(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from docker.errors import ImageNotFound

    repository = "agentcompass/relay-of-a-test"
    monkeypatch.setattr(_relay_image, "REPOSITORY", repository)
    client = Engine().client()
    try:
        for _ in range(2):
            for port in open_ports(client, None, {TEST_LABEL: "1"}, count=2):
                assert port.getsockname()[0] == "127.0.0.1"
                port.close()
        assert len(client.api.images(repository)) == 1
        client.api.remove_image(_relay_image.relay_image(client, None).name)
        for port in open_ports(client, None, {TEST_LABEL: "1"}):
            port.close()
    finally:
        with contextlib.suppress(ImageNotFound):
            client.api.remove_image(_relay_image._packed().name)


def test_a_long_directory_for_temporary_files_is_no_obstacle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deep = tmp_path / ("x" * 100) / ("y" * 100)
    deep.mkdir(parents=True)
    monkeypatch.setattr("tempfile.tempdir", str(deep))
    for port in open_ports(Engine().client(), None, {TEST_LABEL: "1"}):
        port.close()
    assert list(deep.iterdir()) == []
