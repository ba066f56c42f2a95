"""Engines that are not behind a local socket, and how the engine is found."""

import asyncio
import contextlib
import hashlib
import json
import select
import shutil
import socket
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agentcompass.components.contracts.attempt import AttemptKey
from agentcompass.components.contracts.requirements import Requirements
from agentcompass.components.contracts.sandbox import SandboxLabel
from agentcompass.components.environments.docker import Docker, DockerParameters
from tests.components.environments.docker_engine import IMAGE, needs_engine
from tests.standins.engine_wire import engine_wire

pytestmark = needs_engine

Wrap = Callable[[socket.socket], socket.socket]


def both_ways(client: socket.socket, engine: socket.socket) -> None:
    """Until the engine ends it. In one thread: a TLS connection may not be read and written at
    once."""
    reading = [client, engine]
    while True:
        held = isinstance(client, ssl.SSLSocket) and client.pending()
        ready = [client] if held else select.select(reading, [], [])[0]
        for source in ready:
            block = source.recv(65536)
            if block:
                (engine if source is client else client).sendall(block)
            elif source is engine:
                return
            else:
                engine.shutdown(socket.SHUT_WR)
                reading.remove(client)


@contextlib.contextmanager
def listening(wrap: Wrap = lambda client: client) -> Iterator[int]:
    """The engine on a TCP port of the loopback."""

    def serve(client: socket.socket) -> None:
        engine = socket.socket(socket.AF_UNIX)
        engine.connect("/var/run/docker.sock")
        with contextlib.suppress(OSError), wrap(client) as ours, engine:
            both_ways(ours, engine)

    def accept() -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = listener.accept()
                threading.Thread(target=serve, args=(client,), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=accept, daemon=True).start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)


async def use(provider: Docker) -> None:
    """Commands with input, files, a time-out."""
    label = SandboxLabel("docker_connections", AttemptKey(task_id="task", index=1))
    data = bytes(range(256)) * 4000
    async with provider.open(Requirements(image=IMAGE), label) as env:
        summed = await env.exec("sha256sum", stdin=data, timeout_seconds=60)
        assert summed.stdout.split()[0] == hashlib.sha256(data).hexdigest()
        empty = await env.exec("cat; echo $? >&2; exit 4", timeout_seconds=60)
        assert (empty.exit_code, empty.stdout, empty.stderr) == (4, "", "0\n")
        await env.write_file("a/file", data)
        assert await env.read_file("a/file") == data
        late = await env.exec("echo early; sleep 100", timeout_seconds=1)
        assert (late.timed_out, late.stdout) == (True, "early\n")


def test_an_engine_behind_tcp() -> None:
    with listening() as port:
        asyncio.run(use(Docker(DockerParameters(host=f"tcp://127.0.0.1:{port}"))))


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl makes the certificates")
def test_an_engine_behind_tls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    subprocess.run(
        f"openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=127.0.0.1 "
        f"-addext subjectAltName=IP:127.0.0.1 -keyout {tmp_path}/key.pem -out {tmp_path}/cert.pem",
        shell=True,
        check=True,
        capture_output=True,
    )
    shutil.copy(tmp_path / "cert.pem", tmp_path / "ca.pem")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "cert.pem", tmp_path / "key.pem")
    with listening(lambda client: context.wrap_socket(client, server_side=True)) as port:
        monkeypatch.setenv("DOCKER_HOST", f"tcp://127.0.0.1:{port}")
        monkeypatch.setenv("DOCKER_TLS_VERIFY", "1")
        for name in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):  # over DOCKER_CERT_PATH, to requests
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("DOCKER_CERT_PATH", str(tmp_path))
        asyncio.run(use(Docker(DockerParameters())))


@pytest.mark.parametrize("named_by", ["DOCKER_CONTEXT", "config"])
def test_the_docker_commands_context_is_followed(
    named_by: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with engine_wire() as wire:
        folder = tmp_path / "contexts/meta" / hashlib.sha256(b"other").hexdigest()
        folder.mkdir(parents=True)
        endpoint = {"Host": wire.host, "SkipTLSVerify": False}
        meta = {"Name": "other", "Metadata": {}, "Endpoints": {"docker": endpoint}}
        (folder / "meta.json").write_text(json.dumps(meta), encoding="utf-8")
        current = {"currentContext": "other"} if named_by == "config" else {}
        (tmp_path / "config.json").write_text(json.dumps(current), encoding="utf-8")
        monkeypatch.delenv("DOCKER_HOST", raising=False)
        monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
        if named_by == "DOCKER_CONTEXT":
            monkeypatch.setenv("DOCKER_CONTEXT", "other")
        asyncio.run(use(Docker(DockerParameters())))
        assert any("containers/create" in line for line in wire.requests)
