"""Network policies of docker sandboxes, against a real engine; servers of this machine are the
world outside."""

import asyncio
import contextlib
import socket
import subprocess
import threading
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agentcompass.components.contracts.requirements import (
    AllowedHosts,
    DeniedHosts,
    Network,
)
from tests.components.environments.docker_boxes import (
    ONLY_ALLOWED,
    Site,
    box,
    fetched,
    heard,
    udp_ear,
    until,
)
from tests.components.environments.docker_engine import needs_engine
from tests.components.environments.own_authority import own_certificate

pytestmark = [needs_engine, pytest.mark.timeout(240), pytest.mark.usefixtures("no_proxies")]


# Every way out a program as root has without tools: a line for each that was not refused.
ESCAPES = """
import socket, struct, sys
host, tcp, udp = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
def attempt(name, work):
    try:
        work()
    except OSError:
        return
    print(name)
def ping():
    raw = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
    raw.settimeout(2)
    raw.sendto(struct.pack("!BBHHH", 8, 0, 0xf7fe, 1, 0), (host, 0))
    raw.recv(100)
def frame():
    packet = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
    packet.bind(("eth0", 0))
    packet.send(b"\\xff" * 60)
def udp6():
    socket.socket(socket.AF_INET6, socket.SOCK_DGRAM).sendto(b"x", ("2001:db8::1", 9))
attempt("tcp", lambda: socket.create_connection((host, tcp), 2))
attempt("loopback", lambda: socket.create_connection(("127.0.0.1", tcp), 2))
attempt("udp", lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", (host, udp)))
attempt("udp6", udp6)
attempt("icmp", ping)
attempt("names", lambda: socket.getaddrinfo("example.com", 80))
print("interfaces", *[name for _, name in socket.if_nameindex() if name.startswith("eth")])
"""


def test_under_none_nothing_leaves_and_the_model_is_reached(host: str) -> None:
    async def check() -> None:
        policies = Network(baseline="public", run="none")
        with Site("outside", "0.0.0.0") as outside, Site("model") as model, udp_ear() as ear:
            async with box(policies) as sandbox:
                ways = (host, outside.port, ear.getsockname()[1])
                address = await sandbox.network.model_address(f"http://127.0.0.1:{model.port}/v1")
                before = (await sandbox.python(ESCAPES, *ways)).split()
                assert {"tcp", "udp", "icmp", "eth0"} <= set(before)  # the attempts are real
                assert heard(ear)
                await sandbox.network.enter("run")
                assert sandbox.network.variables() == {}
                assert await sandbox.python(ESCAPES, *ways) == "interfaces"
                assert not heard(ear)
                assert await fetched(sandbox, f"{address}/models") == ["200 model"]
                assert model.visits == ["/v1/models"]

    asyncio.run(check())


TICK = """
import socket, sys, time
connection = socket.create_connection((sys.argv[1], int(sys.argv[2])), 5)
while True:
    try:
        connection.send(b".")
    except OSError:
        pass
    time.sleep(0.05)
"""


@contextlib.contextmanager
def ticks() -> Iterator[tuple[int, list[float]]]:
    """A port, and when something arrived there."""
    arrivals: list[float] = []
    with socket.create_server(("0.0.0.0", 0)) as server:

        def listen() -> None:
            with contextlib.suppress(OSError):
                connection, _ = server.accept()
                with connection:
                    while connection.recv(1):
                        arrivals.append(1)

        threading.Thread(target=listen, daemon=True).start()
        yield server.getsockname()[1], arrivals
        with contextlib.suppress(OSError):
            server.shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize("later", ["none", ONLY_ALLOWED])
def test_a_connection_made_under_public_is_dead_after_the_switch(
    host: str, names: dict[str, list[str]], later: Any
) -> None:
    async def check() -> None:
        with ticks() as (port, arrivals):
            async with box(Network(baseline="public", run=later), names) as sandbox:
                await sandbox.sh(f"python3 -c '{TICK}' {host} {port} >/dev/null 2>&1 &")
                await until(lambda: len(arrivals) > 5)
                await sandbox.network.enter("run")
                await asyncio.sleep(0.1)  # what was on its way
                arrived = len(arrivals)
                await asyncio.sleep(1.0)
                assert len(arrivals) == arrived

    asyncio.run(check())


def test_phases_switch_both_ways_again_and_again(host: str, names: dict[str, list[str]]) -> None:
    async def check() -> None:
        policies = Network(baseline="none", run=ONLY_ALLOWED, evaluation="public")
        with Site("outside", "0.0.0.0") as outside, Site("allowed", "0.0.0.0") as allowed:
            async with box(policies, names) as sandbox:
                direct = f"http://{host}:{outside.port}/"
                listed = f"http://allowed.test:{allowed.port}/"
                for _ in range(3):
                    await sandbox.network.enter("baseline")
                    assert all("failed" in line for line in await fetched(sandbox, direct, listed))
                    await sandbox.network.enter("evaluation")
                    assert (await fetched(sandbox, direct))[0] == "200 outside"
                    await sandbox.network.enter("run")
                    first, second = await fetched(sandbox, listed, direct)
                    assert first == "200 allowed"
                    assert second.startswith("403 ")

    asyncio.run(check())


@pytest.fixture
def secure_site(tmp_path: Path) -> Iterator[int]:
    """A port with TLS that answers HTTP."""
    _, context = own_certificate(tmp_path)
    with Site("secure", "0.0.0.0").secured(context) as site:
        yield site.port


def test_an_allow_list_reaches_the_allowed_only(
    host: str, names: dict[str, list[str]], tmp_path: Path, secure_site: int
) -> None:
    async def check() -> None:
        (tmp_path / "site").mkdir()
        _repository(tmp_path / "site")
        _index(tmp_path / "site")
        with (
            Site("files", "0.0.0.0", tmp_path / "site") as files,
            Site("outside", "0.0.0.0") as outside,
            udp_ear() as ear,
        ):
            async with box(Network(baseline=ONLY_ALLOWED), names) as sandbox:
                base = f"allowed.test:{files.port}"
                lines = await fetched(
                    sandbox,
                    f"https://allowed.test:{secure_site}/",
                    f"http://other.test:{files.port}/",
                    f"https://other.test:{secure_site}/",
                    f"http://{host}:{outside.port}/",
                    f"http://127.0.0.1.nip.io:{files.port}/",
                )
                assert lines[0] == "200 secure"
                assert all("refuses" in line for line in lines[1:]), lines
                assert (
                    await sandbox.python(ESCAPES, host, outside.port, ear.getsockname()[1])
                    == "interfaces"
                )
                assert outside.visits == []
                assert not heard(ear)

                assert "HEAD" in await sandbox.sh(f"git ls-remote http://{base}/repository.git")
                refused = await sandbox.sh(f"git ls-remote http://{host}:{outside.port}/r.git")
                assert "403" in refused
                pip = "pip download --no-deps --disable-pip-version-check --retries 0 -d /tmp"
                trust = f"--trusted-host {base} -i http://{base}/simple/"
                assert "Successfully downloaded" in await sandbox.sh(
                    f"python3 -m {pip} {trust} tiny"
                )

    asyncio.run(check())


def test_a_deny_list_reaches_all_but_the_denied_and_this_machine(
    host: str, names: dict[str, list[str]]
) -> None:
    async def check() -> None:
        others = {
            **names,
            "open.test": [host],
            "hidden.test": ["10.9.9.9"],
            "local.test": ["127.0.0.1"],
        }
        deny = DeniedHosts(deny=("denied.test", "10.9.0.0/16"))
        with Site("outside", "0.0.0.0") as outside, Site("own") as own:
            async with box(Network(baseline=deny), others) as sandbox:
                port = outside.port
                lines = await fetched(
                    sandbox,
                    f"http://open.test:{port}/",
                    f"http://{host}:{port}/",
                    f"http://denied.test:{port}/",
                    f"http://203.0.113.7:{port}/",
                    f"http://hidden.test:{port}/",
                    f"http://10.9.1.1:{port}/",
                    f"http://local.test:{own.port}/",
                    f"http://2130706433:{own.port}/",
                )
                assert lines[:2] == ["200 outside", "200 outside"]
                assert all(line.startswith("403 ") and "refuses" in line for line in lines[2:])
                assert own.visits == []

    asyncio.run(check())


def test_two_sandboxes_have_their_own_policies_at_once(names: dict[str, list[str]]) -> None:
    async def check() -> None:
        other = AllowedHosts(allow=("other.test",))
        with Site("here", "0.0.0.0") as site:
            addresses = [f"http://{name}.test:{site.port}/" for name in ("allowed", "other")]
            async with (
                box(Network(baseline=ONLY_ALLOWED), names) as first,
                box(Network(baseline=other), names) as second,
            ):
                for _ in range(2):
                    one, two = await asyncio.gather(
                        fetched(first, *addresses), fetched(second, *addresses)
                    )
                    assert [line[:3] for line in one] == ["200", "403"]
                    assert [line[:3] for line in two] == ["403", "200"]

    asyncio.run(check())


def _repository(folder: Path) -> None:
    """A bare repository to be cloned over plain HTTP."""
    bare = folder / "repository.git"
    author = ["-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run(["git", "init", "-q", str(folder / "work")], check=True)
    commit = [
        "git",
        "-C",
        str(folder / "work"),
        *author,
        "commit",
        "-q",
        "--allow-empty",
        "-m",
        "x",
    ]
    subprocess.run(commit, check=True)
    clone = ["git", "clone", "-q", "--bare", str(folder / "work"), str(bare)]
    subprocess.run(clone, check=True)
    subprocess.run(["git", "-C", str(bare), "update-server-info"], check=True)


def _index(folder: Path) -> None:
    """A package index with one wheel."""
    page = folder / "simple" / "tiny"
    page.mkdir(parents=True)
    name = "tiny-1.0-py3-none-any.whl"
    with zipfile.ZipFile(page / name, "w") as wheel:
        wheel.writestr("tiny.py", "")
        wheel.writestr(
            "tiny-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n"
        )
        wheel.writestr("tiny-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        wheel.writestr("tiny-1.0.dist-info/RECORD", "")
    (page / "index.html").write_text(f'<a href="{name}">{name}</a>')
