"""A small stand-in for the data-set part of the hub's HTTP API, on a loopback port.

Serves files of one data set at named revisions, to the real client. `fail` makes the next
requests of a kind misbehave; `requests` is what came in.
"""

import hashlib
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any
from urllib.parse import unquote

COMMIT = "a" * 40
NEXT_COMMIT = "b" * 40


@dataclass
class Failure:
    kind: str
    """`api`, `file`, or "" for both."""
    status: int
    code: str
    times: int
    """How many requests; -1: all."""
    seconds: float = 0.0
    cut: bool = False
    """Send half of the body, then hang up."""


@dataclass
class HubStandIn:
    repository: str
    files: dict[str, dict[str, bytes]]
    """commit → path → content."""
    refs: dict[str, str]
    endpoint: str = ""
    requests: list[tuple[str, str, str | None]] = field(default_factory=list)
    """(method, path, Authorization) of each."""
    failures: list[Failure] = field(default_factory=list)

    def fail(
        self,
        status: int = 500,
        *,
        kind: str = "",
        code: str = "",
        times: int = -1,
        seconds: float = 0.0,
        cut: bool = False,
    ) -> None:
        self.failures.append(Failure(kind, status, code, times, seconds, cut))

    def failure(self, kind: str, method: str) -> Failure | None:
        for failure in self.failures:
            if (
                failure.kind in ("", kind)
                and failure.times
                and not (failure.cut and method == "HEAD")
            ):
                failure.times -= 1
                return failure
        return None


@contextmanager
def hub_stand_in(repository: str, files: dict[str, bytes]) -> Iterator[HubStandIn]:
    """A hub whose data set has one commit, which `main` names."""
    hub = HubStandIn(repository, {COMMIT: files}, {"main": COMMIT})
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(hub))
    server.daemon_threads = True
    hub.endpoint = f"http://127.0.0.1:{server.server_port}"
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _handler(hub: HubStandIn) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self.answer()

        def do_HEAD(self) -> None:
            self.answer()

        def log_message(self, format: str, *args: Any) -> None:
            pass

        def answer(self) -> None:
            path = unquote(self.path.partition("?")[0])
            hub.requests.append((self.command, path, self.headers.get("Authorization")))
            kind = "api" if path.startswith("/api/") else "file"
            failure = hub.failure(kind, self.command)
            if failure and failure.seconds:
                time.sleep(failure.seconds)
            if failure and not failure.cut:
                self.refuse(failure.status, failure.code)
            elif kind == "api":
                self.describe(path)
            else:
                self.give(path, cut=bool(failure))

        def describe(self, path: str) -> None:
            prefix = f"/api/datasets/{hub.repository}"
            if not path.startswith(prefix):
                self.refuse(404, "RepoNotFound")
                return
            revision = path.removeprefix(prefix).removeprefix("/revision/") or "main"
            commit = hub.refs.get(revision, revision)
            if commit not in hub.files:
                self.refuse(404, "RevisionNotFound")
                return
            names = [{"rfilename": name} for name in ("README.md", *hub.files[commit])]
            body = {"id": hub.repository, "sha": commit, "siblings": names, "private": False}
            self.reply(200, json.dumps(body).encode(), {"Content-Type": "application/json"})

        def give(self, path: str, *, cut: bool) -> None:
            rest = path.removeprefix(f"/datasets/{hub.repository}/resolve/")
            revision, _, name = rest.partition("/")
            commit = hub.refs.get(revision, revision)
            content = hub.files.get(commit, {}).get(name)
            if content is None:
                self.refuse(404, "EntryNotFound")
                return
            digest = hashlib.sha256(content).hexdigest()
            self.reply(200, content, {"X-Repo-Commit": commit, "ETag": f'"{digest}"'}, cut=cut)

        def refuse(self, status: int, code: str) -> None:
            token = self.headers.get("Authorization")
            message = f"refused, you sent {token}"  # a hub may echo what it was sent
            self.reply(status, b"", {"X-Error-Code": code, "X-Error-Message": message})

        def reply(
            self, status: int, body: bytes, headers: dict[str, str], *, cut: bool = False
        ) -> None:
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            if cut:
                self.send_header("Connection", "close")
            self.end_headers()
            if self.command == "GET":
                with suppress(BrokenPipeError):  # a client that had enough
                    self.wfile.write(body[: len(body) // 2] if cut else body)
            self.close_connection = self.close_connection or cut

    return Handler
