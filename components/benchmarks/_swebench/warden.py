"""Runs the tests inside the sandbox and keeps the account of them; nothing of the tests' own.

Runs inside the sandbox (Python 3.8 or newer, standard library only), beside the test runner and
not in it. The runner's reporter sends every outcome over a socket the moment it is known: what was
said cannot be taken back, and the socket takes one connection only. The runner's output goes to a
pipe and counts for nothing here. The account is printed as one line with a token.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from typing import IO, Any

from agentcompass.components.benchmarks._judge.candidate import (
    CAP_SYS_PTRACE,
    PR_CAPBSET_DROP,
    PR_SET_DUMPABLE,
    kill_group,
    process_option,
)
from agentcompass.components.benchmarks._swebench.starving import lost_seconds

PR_SET_CHILD_SUBREAPER = 36  # linux/prctl.h
EVENTS_LIMIT_BYTES = 128 * 1024 * 1024
END_SECONDS = 5.0
GREETING_SECONDS = 5.0
"""For who connects to say who it is."""
TICK_SECONDS = 0.05


def main(incoming: IO[bytes]) -> None:
    """Read the request, run, print the account."""
    request = json.loads(incoming.readline())
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    process_option(PR_SET_DUMPABLE, 0)  # no looking into this process from the tests
    process_option(PR_SET_CHILD_SUBREAPER, 1)
    account = Run(request).account()
    line = json.dumps({"token": request["token"], "account": account})
    sys.stdout.write("\n" + line + "\n")
    sys.stdout.flush()


class Run:
    def __init__(self, request: dict[str, Any]) -> None:
        self.request = request
        self.folder = tempfile.mkdtemp(prefix="w")
        self.token, self.canary = secrets.token_hex(16), f"test_{secrets.token_hex(6)}"
        self.module = f"_{secrets.token_hex(8)}"
        self.events: list[dict[str, Any]] = []
        self.pending, self.received = b"", 0
        self.head, self.tail, self.dropped = bytearray(), bytearray(), 0
        self.strangers = 0
        self.starved = False

    def account(self) -> dict[str, Any]:
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listener.bind(f"{self.folder}/s")
        listener.listen(4)
        self._write_reporter()
        process = self._start()
        try:
            timed_out = self._follow(process, listener)
        finally:
            kill_group(process.pid)
            code = process.wait()
            end_orphans()
            shutil.rmtree(self.folder, ignore_errors=True)
        return {
            "events": self.events,
            "exit_code": code,
            "timed_out": timed_out,
            "starved": self.starved,
            "canary": self.canary,
            "strangers": self.strangers,
            "output": self._output(),
        }

    def _write_reporter(self) -> None:
        words = (f"{self.folder}/s", self.token, self.canary)
        path = f"{self.folder}/{self.module}.py"
        with open(path, "w", encoding="utf-8") as file:  # noqa: PTH123
            file.write(f"{self.request['reporter']}\n\nstart{words!r}\n")

    def _start(self) -> subprocess.Popen[bytes]:
        script = self.request["script"].replace("@REPORTER@", f"{self.folder}/{self.module}.py")
        given = {**os.environ, **self.request["env"]}
        env = {name: value for name, value in given.items() if value is not None}
        if self.request["plugin"]:
            paths = [self.folder, env.get("PYTHONPATH", "")]
            env["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
            options = [env.get("PYTEST_ADDOPTS", ""), f"-p {self.module}"]
            env["PYTEST_ADDOPTS"] = " ".join(filter(None, options))
        shell = shutil.which("bash") or "/bin/sh"
        return subprocess.Popen(
            [shell, "-c", script],
            cwd=self.request["workdir"],
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=lambda: process_option(PR_CAPBSET_DROP, CAP_SYS_PTRACE),
        )

    def _follow(self, process: subprocess.Popen[bytes], listener: socket.socket) -> bool:
        """Until the runner has ended and what it sent is read; True: it was over its time."""
        assert process.stdout is not None
        limit, began = self.request["timeout_seconds"], time.monotonic()
        end = began + limit
        sources: list[Any] = [process.stdout, listener]
        reporter: socket.socket | None = None
        ended_at: float | None = None
        stalled = 0.0
        while True:
            before = time.monotonic()
            ready = select.select(sources, [], [], TICK_SECONDS)[0]
            stalled += max(0.0, time.monotonic() - before - 2 * TICK_SECONDS)
            for source in ready:
                if source is listener:
                    connection = listener.accept()[0]
                    if reporter is None and self._is_reporter(connection):
                        reporter = connection
                        sources.append(connection)
                    else:
                        self.strangers += 1
                        connection.close()
                elif source is process.stdout:
                    chunk = os.read(process.stdout.fileno(), 1 << 16)
                    self._keep(chunk)
                    if not chunk:
                        sources.remove(source)
                else:
                    chunk = source.recv(1 << 16)
                    self._take(chunk)
                    if not chunk:
                        sources.remove(source)
            if (now := time.monotonic()) > end:
                # What others took from them is given back, as much again as they have at most.
                lost = max(stalled, lost_seconds(os.getpid(), now - began))
                end = began + limit + min(lost, limit)
                if now >= end:
                    self.starved = lost >= limit
                    return True
            if process.poll() is not None:
                ended_at = ended_at or time.monotonic()
                # A child left behind may hold the pipe open: what has come is read, no more.
                if not ready or time.monotonic() - ended_at > END_SECONDS:
                    return False

    def _is_reporter(self, connection: socket.socket) -> bool:
        end, said = time.monotonic() + GREETING_SECONDS, b""
        try:
            while not said.endswith(b"\n") and len(said) < 64:
                connection.settimeout(max(end - time.monotonic(), 0.01))
                byte = connection.recv(1)
                if not byte:
                    return False
                said += byte
        except OSError:
            return False
        return said == self.token.encode() + b"\n"

    def _take(self, chunk: bytes) -> None:
        self.received += len(chunk)
        if self.received > EVENTS_LIMIT_BYTES:
            return
        *lines, self.pending = (self.pending + chunk).split(b"\n")
        for line in lines:
            with contextlib.suppress(ValueError, RecursionError):
                event = json.loads(line)
                if isinstance(event, dict):
                    self.events.append(event)

    def _keep(self, chunk: bytes) -> None:
        half = self.request["output_limit_bytes"] // 2
        room = half - len(self.head)
        self.head += chunk[:room]
        self.tail += chunk[max(room, 0) :]
        if len(self.tail) > 2 * half:
            self.dropped += len(self.tail) - half
            del self.tail[:-half]

    def _output(self) -> str:
        gap = f"\n[… {self.dropped} bytes dropped …]\n".encode() if self.dropped else b""
        return (bytes(self.head) + gap + bytes(self.tail)).decode("utf-8", "replace")


def end_orphans() -> None:
    """What the tests left running in sessions of its own became a child of this process."""
    for _ in range(50):
        children = _children()
        for pid in children:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        if not children:
            return
        time.sleep(0.02)


def _children() -> list[int]:
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):  # noqa: PTH208
        with (
            contextlib.suppress(OSError, IndexError),
            open(f"/proc/{name}/stat", "rb") as file,  # noqa: PTH123
        ):
            if int(file.read().rpartition(b")")[2].split()[1]) == os.getpid():
                found.append(int(name))
    return found
