import json
import os
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import psutil
import pytest

from agentcompass.flows import server
from tests.components.environments.own_authority import own_certificate


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PREFECT_HOME", str(tmp_path))
    return tmp_path


def test_one_server_for_two_starts_at_once_and_after_a_kill_a_new_one(home: Path) -> None:
    program = "from agentcompass.flows import server; print(server.start().pid)"
    starts = [
        subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) for _ in range(2)
    ]
    first, second = (int(start.communicate(timeout=200)[0]) for start in starts)
    try:
        assert first == second
        running = server.status()
        assert running is not None
        assert running.pid == first
        os.kill(first, signal.SIGKILL)
        until = time.monotonic() + 10
        while psutil.pid_exists(first) and time.monotonic() < until:
            time.sleep(0.05)
        assert server.status() is None
        assert server.start().pid != first
    finally:
        assert server.stop()
    assert server.status() is None
    assert not server.stop()


def test_two_homes_at_once_have_a_server_each(tmp_path: Path) -> None:
    """Both find the usual port free, and one gets it."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        usual = probe.getsockname()[1]
    program = (
        "from agentcompass.flows import server\n"
        f"server.USUAL_PORT = {usual}\n"
        "try:\n    print(server.start().url, flush=True)\n    input()\n"
        "finally:\n    server.stop()\n"
    )
    starts = [
        subprocess.Popen(
            [sys.executable, "-c", program],
            env={**os.environ, "PREFECT_HOME": str(tmp_path / name)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for name in ("one", "other")
    ]
    try:
        urls = [start.stdout.readline().strip() for start in starts if start.stdout]
        assert len(set(urls)) == 2
        assert all(map(server.answers, urls))
    finally:
        for start in starts:
            start.communicate("\n", timeout=60)


def test_a_stale_state_file_is_not_believed(home: Path) -> None:
    state = {
        "url": "http://127.0.0.1:1/api",
        "ui_url": "http://127.0.0.1:1",
        "pid": os.getpid(),  # alive, but not the server: it started at another time
        "process_started": 0.0,
        "started_at": "",
        "home": str(home),
    }
    (home / "agentcompass-server.json").write_text(json.dumps(state))
    assert server.status() is None
    (home / "agentcompass-server.json").write_text("{ torn")
    assert server.status() is None


def test_the_users_choice_comes_first(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    assert server.chosen_url() is None
    (home / "profiles.toml").write_text(
        'active = "work"\n[profiles.work]\nPREFECT_API_URL = "http://prefect.example/api"\n'
    )
    assert server.chosen_url() == "http://prefect.example/api"
    monkeypatch.setenv("PREFECT_API_URL", "http://other.example/api")
    assert server.chosen_url() == "http://other.example/api"


def test_a_home_that_cannot_be_written_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    monkeypatch.setenv("PREFECT_HOME", str(blocked / "home"))
    assert server.home() != blocked / "home"
    assert server.home().is_dir()


@pytest.mark.parametrize(("status", "there"), [(200, True), (401, True), (403, True), (502, False)])
def test_an_api_that_wants_a_key_is_there_and_a_gateway_without_one_is_not(
    status: int, there: bool
) -> None:
    with answering(status) as port:
        assert server.answers(f"http://127.0.0.1:{port}/api") is there
    assert not server.answers(f"http://127.0.0.1:{port}/api")


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl makes the certificate")
def test_an_api_with_a_company_s_certificate_is_there(tmp_path: Path) -> None:
    _, context = own_certificate(tmp_path)
    with answering(200, context) as port:
        assert server.answers(f"https://127.0.0.1:{port}/api")


@contextmanager
def answering(status: int, context: ssl.SSLContext | None = None) -> Iterator[int]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.end_headers()

        def log_message(self, format: str, *words: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as there:
        if context is not None:
            there.socket = context.wrap_socket(there.socket, server_side=True)
        threading.Thread(target=there.serve_forever, daemon=True).start()
        try:
            yield there.server_address[1]
        finally:
            there.shutdown()
