"""A Docker engine's socket that passes everything on to a real engine, but for chosen requests.

`fail` makes requests whose path matches misbehave as engines do: refuse with a text, tell of a
failure in mid-stream, hang up, or never answer.
"""

import asyncio
import json
import re
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
from aiohttp import web

_NOT_PASSED_ON = {"transfer-encoding", "content-length", "connection", "host"}


@dataclass
class Fault:
    path: re.Pattern[str]
    times: int
    status: int
    text: str
    """Of the refusal, or of the failure in mid-stream."""
    kind: str
    """`refuse`, `stream`, `cut` or `hang`."""


@dataclass
class EngineProxy:
    host: str
    """`unix://…`, for DOCKER_HOST."""
    requests: list[str] = field(default_factory=list)
    """Method and path of each."""
    faults: list[Fault] = field(default_factory=list)
    stop: Callable[[], object] = lambda: None

    def fail(
        self, path: str, kind: str, *, text: str = "", status: int = 500, times: int = -1
    ) -> None:
        self.faults.append(Fault(re.compile(path), times, status, text, kind))

    def fault(self, line: str) -> Fault | None:
        for fault in self.faults:
            if fault.times and fault.path.search(line):
                fault.times -= 1
                return fault
        return None


@contextmanager
def engine_proxy(engine_socket: str = "/var/run/docker.sock") -> Iterator[EngineProxy]:
    folder = Path(tempfile.mkdtemp(prefix="engine-"))  # short, as paths of sockets must be
    proxy = EngineProxy(host=f"unix://{folder}/s")
    loop, ready = asyncio.new_event_loop(), threading.Event()

    async def serve() -> None:
        connector = aiohttp.UnixConnector(engine_socket, limit=0)
        async with aiohttp.ClientSession(connector=connector, auto_decompress=False) as session:

            async def answer(request: web.Request) -> web.StreamResponse:
                return await _answer(proxy, session, request)

            application = web.Application(client_max_size=1024**3)
            application.router.add_route("*", "/{path:.*}", answer)
            runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
            await runner.setup()
            await web.UnixSite(runner, f"{folder}/s").start()
            stopped = asyncio.Event()
            proxy.stop = lambda: loop.call_soon_threadsafe(stopped.set)
            ready.set()
            await stopped.wait()
            await runner.cleanup()

    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()), daemon=True)
    thread.start()
    assert ready.wait(10)
    try:
        yield proxy
    finally:
        proxy.stop()
        thread.join(10)
        loop.close()
        shutil.rmtree(folder)


async def _answer(
    proxy: EngineProxy, session: aiohttp.ClientSession, request: web.Request
) -> web.StreamResponse:
    line = f"{request.method} {request.raw_path}"
    proxy.requests.append(line)
    fault = proxy.fault(line)
    if fault is not None:
        return await _faulty(fault, request)
    headers = {k: v for k, v in request.headers.items() if k.lower() not in _NOT_PASSED_ON}
    body = await request.read()
    async with session.request(
        request.method,
        f"http://engine{request.raw_path}",
        headers=headers,
        data=body,
        timeout=aiohttp.ClientTimeout(total=None),
    ) as reply:
        kept = {k: v for k, v in reply.headers.items() if k.lower() not in _NOT_PASSED_ON}
        response = web.StreamResponse(status=reply.status, headers=kept)
        if reply.content_length is not None:
            response.content_length = reply.content_length
        await response.prepare(request)
        async for chunk in reply.content.iter_any():
            await response.write(chunk)
        await response.write_eof()
        return response


async def _faulty(fault: Fault, request: web.Request) -> web.StreamResponse:
    if fault.kind == "hang":
        await asyncio.sleep(3600)
    if fault.kind == "refuse":
        return web.json_response({"message": fault.text}, status=fault.status)
    response = web.StreamResponse(headers={"Content-Type": "application/json"})
    response.enable_chunked_encoding()
    await response.prepare(request)
    await response.write(json.dumps({"status": "Pulling fs layer", "id": "1"}).encode() + b"\r\n")
    if fault.kind == "cut":
        assert request.transport is not None
        request.transport.abort()
        return response
    told = {"errorDetail": {"message": fault.text}, "error": fault.text}
    await response.write(json.dumps(told).encode() + b"\r\n")
    await response.write_eof()
    return response
