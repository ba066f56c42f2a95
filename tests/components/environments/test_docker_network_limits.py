"""What an agent that is root cannot get, and what is left when a network is gone."""

import asyncio

import pytest

from agentcompass.components.contracts.errors import AgentCompassError, Code
from agentcompass.components.contracts.requirements import (
    Network,
)
from tests.components.environments.docker_boxes import (
    ONLY_ALLOWED,
    Site,
    box,
    fetched,
)
from tests.components.environments.docker_engine import needs_engine

pytestmark = [needs_engine, pytest.mark.timeout(240), pytest.mark.usefixtures("no_proxies")]


# What root inside may try to get more than the policy; a line for each success.
WIDEN = """
import ctypes, fcntl, os, socket, struct, subprocess, sys
host, port = sys.argv[1], int(sys.argv[2])
libc = ctypes.CDLL(None, use_errno=True)
control = socket.socket()
def ioctl(number, name, address):
    body = struct.pack("16sHH4s8x", name, socket.AF_INET, 0, socket.inet_aton(address))
    try:
        fcntl.ioctl(control, number, body)
        print("ioctl", hex(number))
    except OSError:
        pass
ioctl(0x8916, b"lo", host)          # an address of the outside for lo
ioctl(0x8914, b"eth0", "0.0.0.0")   # an interface brought up
if libc.unshare(0x40000000) == 0:   # a network of its own
    print("unshare")
for pid in os.listdir("/proc"):
    if pid.isdigit():
        try:
            descriptor = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY)
        except OSError:
            continue
        if libc.setns(descriptor, 0x40000000) == 0:
            print("setns", pid)
for tool in (["ip", "route", "add", "default", "dev", "lo"], ["iptables", "-F"]):
    try:
        if subprocess.run(tool, capture_output=True).returncode == 0:
            print(*tool)
    except FileNotFoundError:
        pass
try:
    socket.create_connection((host, port), 2)
    print("connected")
except OSError:
    pass
"""


FLOOD = """
import resource, socket, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (2000, 2000))
held = []
for _ in range(500):
    try:
        connection = socket.create_connection(("127.0.0.1", int(sys.argv[1])), 5)
        connection.send(b"CONNECT ")
        held.append(connection)
    except OSError:
        pass
print(len(held))
"""


def test_root_inside_cannot_widen_what_it_has(host: str, names: dict[str, list[str]]) -> None:
    async def check() -> None:
        policies = Network(baseline=ONLY_ALLOWED, run="none", evaluation="public")
        with Site("outside", "0.0.0.0") as outside, Site("allowed", "0.0.0.0") as allowed:
            async with box(policies, names) as sandbox:
                listed = f"http://allowed.test:{allowed.port}/"
                direct = f"http://{host}:{outside.port}/"
                proxy = sandbox.network.variables()["http_proxy"]
                assert await sandbox.python(WIDEN, host, outside.port) == ""
                no_proxy = {"http_proxy": "", "HTTP_PROXY": "", "no_proxy": "*", "NO_PROXY": "*"}
                assert "failed" in await sandbox.python(
                    "import urllib.request as u\ntry: print(u.urlopen"
                    f"('{direct}', timeout=5).status)\nexcept OSError as e: print('failed', e)",
                    env=no_proxy,
                )
                flooded = await sandbox.python(FLOOD, proxy.rpartition(":")[2])
                assert int(flooded) > 100
                async with asyncio.timeout(30):  # the places come free
                    while (await fetched(sandbox, listed))[0] != "200 allowed":
                        await asyncio.sleep(0.2)
                await sandbox.network.enter("run")
                stubborn = {"http_proxy": proxy}
                for phase in ("run", "evaluation"):  # the proxy of a list is not for others
                    await sandbox.network.enter(phase)
                    said = await sandbox.python(
                        "import urllib.request as u, urllib.error as e\ntry: u.urlopen"
                        f"('{listed}', timeout=5)\nexcept e.HTTPError as error: print(error.code)",
                        env=stubborn,
                    )
                    assert said == "403"
                assert allowed.visits
                assert outside.visits == []

    asyncio.run(check())


def test_a_closed_network_refuses_at_once(names: dict[str, list[str]]) -> None:
    async def check() -> None:
        async with box(Network(baseline=ONLY_ALLOWED), names) as sandbox:
            variables = dict(sandbox.network.variables())
            await sandbox.network.close()
            await sandbox.network.close()
            line = await sandbox.sh("git ls-remote http://allowed.test/r.git", variables)
            assert "Failed to connect" in line or "Could not connect" in line, line
            with pytest.raises(AgentCompassError, match="the sandbox is gone"):
                await sandbox.network.enter("run")

    asyncio.run(check())


def test_a_sandbox_that_is_gone_is_named_so() -> None:
    async def check() -> None:
        policies = Network(baseline="public", run=ONLY_ALLOWED, evaluation="none")
        async with box(policies) as sandbox:
            await sandbox.engine.call(
                lambda client: client.api.remove_container(sandbox.container, force=True)
            )
            for phase in ("run", "evaluation"):
                with pytest.raises(AgentCompassError) as raised:
                    await sandbox.network.enter(phase)
                assert raised.value.code is Code.ENVIRONMENT_LOST
            with pytest.raises(AgentCompassError) as raised:
                await sandbox.network.model_address("http://127.0.0.1:1/v1")
            assert raised.value.code is Code.ENVIRONMENT_LOST

    asyncio.run(check())
