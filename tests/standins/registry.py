"""A small container registry (HTTP API v2) on a loopback port, for a real engine to pull from.

`add` makes an image of a few files; `fail` makes the next requests of a kind misbehave;
`requests` is what came in. An engine takes 127.0.0.0/8 as a registry without TLS.
"""

import asyncio
import base64
import gzip
import hashlib
import io
import json
import tarfile
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"
_CODES = {
    401: "UNAUTHORIZED",
    403: "DENIED",
    404: "MANIFEST_UNKNOWN",
    429: "TOOMANYREQUESTS",
    500: "UNKNOWN",
    503: "UNAVAILABLE",
}
_MESSAGES = {
    401: "authentication required",
    403: "requested access to the resource is denied",
    404: "manifest unknown",
    429: "You have reached your pull rate limit.",
}


@dataclass
class Failure:
    kind: str
    """`ping`, `manifest`, `blob`, or "" for all."""
    status: int
    times: int
    """How many requests; -1: all."""
    retry_after: str
    seconds: float
    """Wait so long first; for ever is 1e9."""
    cut: bool
    """Send half of the body, then hang up."""


@dataclass
class Registry:
    host: str = ""
    """`127.0.0.1:port`: image names start with it."""
    credentials: tuple[str, str] | None = None
    """User and password, if asked for."""
    blobs: dict[str, bytes] = field(default_factory=dict)
    manifests: dict[tuple[str, str], bytes] = field(default_factory=dict)
    """(repository, tag or digest) → document."""
    requests: list[tuple[str, str]] = field(default_factory=list)
    """(kind, path) of each."""
    failures: list[Failure] = field(default_factory=list)
    stop: Callable[[], object] = lambda: None

    def add(
        self,
        name: str,
        files: Mapping[str, bytes],
        *,
        tag: str = "latest",
        architecture: str = "amd64",
        labels: Mapping[str, str] | None = None,
    ) -> str:
        """An image of one layer; returns its digest, as `docker pull` prints it."""
        layer = _layer(files)
        packed = gzip.compress(layer, 1, mtime=0)
        config = json.dumps(
            {
                "architecture": architecture,
                "os": "linux",
                "config": {"Cmd": ["/none"], "Labels": dict(labels or {})},
                "rootfs": {"type": "layers", "diff_ids": [_digest(layer)]},
                "history": [{"created_by": "stand-in"}],
            }
        ).encode()
        document = json.dumps(
            {
                "schemaVersion": 2,
                "mediaType": MANIFEST,
                "config": {
                    "mediaType": "application/vnd.docker.container.image.v1+json",
                    "size": len(config),
                    "digest": _digest(config),
                },
                "layers": [
                    {
                        "mediaType": "application/vnd.docker.image.rootfs.diff.tar.gzip",
                        "size": len(packed),
                        "digest": _digest(packed),
                    }
                ],
            }
        ).encode()
        self.blobs |= {_digest(config): config, _digest(packed): packed}
        self.manifests[name, tag] = self.manifests[name, _digest(document)] = document
        return _digest(document)

    def image(self, name: str, tag: str = "latest") -> str:
        return f"{self.host}/{name}:{tag}"

    def fail(
        self,
        status: int = 500,
        *,
        kind: str = "",
        times: int = -1,
        retry_after: str = "",
        seconds: float = 0.0,
        cut: bool = False,
    ) -> None:
        self.failures.append(Failure(kind, status, times, retry_after, seconds, cut))

    def heal(self) -> None:
        self.failures.clear()

    def count(self, kind: str) -> int:
        return sum(seen == kind for seen, _ in self.requests)

    def failure(self, kind: str) -> Failure | None:
        for failure in self.failures:
            if failure.kind in ("", kind) and failure.times:
                failure.times -= 1
                return failure
        return None


@contextmanager
def serving(credentials: tuple[str, str] | None = None) -> Iterator[Registry]:
    """A registry on a free port, in a thread of its own."""
    registry = Registry(credentials=credentials)
    ready, loop = threading.Event(), asyncio.new_event_loop()

    async def serve() -> None:
        async def answer(request: web.Request) -> web.StreamResponse:
            return await _answer(registry, request)

        application = web.Application()
        application.router.add_route("*", "/v2/{path:.*}", answer)
        runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        server: Any = site._server
        registry.host = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        stop = asyncio.Event()
        registry.stop = lambda: loop.call_soon_threadsafe(stop.set)
        ready.set()
        await stop.wait()
        await runner.cleanup()

    def run() -> None:
        try:
            loop.run_until_complete(serve())
        finally:
            loop.close()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    assert ready.wait(10)
    try:
        yield registry
    finally:
        registry.stop()
        thread.join(10)


async def _answer(registry: Registry, request: web.Request) -> web.StreamResponse:
    kind, body, headers = _found(registry, request.match_info["path"])
    registry.requests.append((kind, request.path))
    failure = registry.failure(kind)
    if failure is not None and failure.seconds:
        await asyncio.sleep(failure.seconds)
    elif failure is not None and failure.cut:
        return await _cut(request, body or b"", headers)
    elif failure is not None:
        return _error(failure.status, failure.retry_after)
    if registry.credentials is not None and not _allowed(registry.credentials, request):
        return _error(401)
    if body is None:
        return _error(404)
    status, content = 200, b"" if request.method == "HEAD" else body
    start = request.http_range.start or 0
    if start and content:  # an engine goes on where it was cut off
        headers |= {"Content-Range": f"bytes {start}-{len(body) - 1}/{len(body)}"}
        status, content = 206, body[start:]
    response = web.Response(status=status, body=content, headers=headers)
    if request.method == "HEAD":
        response.headers["Content-Length"] = str(len(body))
    return response


def _found(registry: Registry, path: str) -> tuple[str, bytes | None, dict[str, str]]:
    headers = {"Docker-Distribution-Api-Version": "registry/2.0"}
    if not path:
        return "ping", b"{}", headers
    name, kind, reference = path.rsplit("/", 2)
    if kind == "blobs":
        return (
            "blob",
            registry.blobs.get(reference),
            headers | {"Content-Type": "application/binary"},
        )
    document = registry.manifests.get((name, reference))
    if document is not None:
        headers |= {"Content-Type": MANIFEST, "Docker-Content-Digest": _digest(document)}
    return "manifest", document, headers


async def _cut(request: web.Request, body: bytes, headers: dict[str, str]) -> web.StreamResponse:
    response = web.StreamResponse(headers=headers | {"Content-Length": str(len(body))})
    await response.prepare(request)
    await response.write(body[: len(body) // 2])
    assert request.transport is not None
    request.transport.abort()
    return response


def _error(status: int, retry_after: str = "") -> web.Response:
    headers = {"Retry-After": retry_after} if retry_after else {}
    if status == 401:
        headers["WWW-Authenticate"] = 'Basic realm="stand-in"'
    error = {"code": _CODES.get(status, "UNKNOWN"), "message": _MESSAGES.get(status, "a fault")}
    return web.json_response({"errors": [error]}, status=status, headers=headers)


def _allowed(credentials: tuple[str, str], request: web.Request) -> bool:
    wanted = "Basic " + base64.b64encode(":".join(credentials).encode()).decode()
    return request.headers.get("Authorization") == wanted


def _layer(files: Mapping[str, bytes]) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for path, content in files.items():
            entry = tarfile.TarInfo(path)
            entry.size, entry.mode = len(content), 0o755
            archive.addfile(entry, io.BytesIO(content))
    return packed.getvalue()


def _digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"
