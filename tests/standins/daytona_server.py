"""A stand-in for Daytona's API on loopback, for the real SDK: its sandboxes really run commands.

    with DaytonaServer(folder) as server:
        server.fail("POST /api/sandbox", 429, retry_after=1)
        server.url  # for DAYTONA_API_URL

It cannot show images (every sandbox sees this machine's /usr), GPUs, or Daytona's real limits.
Also `python -m tests.standins.daytona_server FOLDER`, which prints its URL and stays.
"""

import asyncio
import json
import re
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from aiohttp import web

from tests.standins import daytona_toolbox
from tests.standins.daytona_sandbox import StandinSandbox
from tests.standins.daytona_toolbox import refusal

KEY = "standin-key"
_ID = re.compile(r"/[0-9a-f]{8}-[0-9a-f-]{27}")


@dataclass
class Fault:
    call: str
    """A regular expression over `METHOD /path`, ids replaced by `{id}`."""
    status: int
    """0: the connection is cut; -1: no answer ever comes."""
    times: int
    retry_after: float | None
    after: bool
    """The call is done first, then its answer is spoilt."""
    late: float
    """Seconds until the call is done at all; nothing is spoilt then."""
    message: str


class _RefusedError(Exception):
    def __init__(self, response: web.Response) -> None:
        super().__init__(response.status)
        self.response = response


class DaytonaServer:
    def __init__(self, root: Path, port: int = 0, start_seconds: float = 0.0) -> None:
        self.root, self.start_seconds = root, start_seconds
        self.names: dict[str, str] = {}
        """Hosts that resolve inside sandboxes, with their addresses."""
        self.snapshots = {"prepared"}
        self.image_user = "root"
        self.delete_seconds = 0.0
        self.sandboxes: dict[str, StandinSandbox] = {}
        self.ever: list[StandinSandbox] = []
        self.most_alive: int | None = None
        """More than so many at once go over the account's quota."""
        self.calls: list[str] = []
        self._faults: list[Fault] = []
        self._under_way: set[asyncio.Transport] = set()
        self._port = port
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._booting: set[asyncio.Task[None]] = set()

    def fail(
        self,
        call: str,
        status: int,
        times: int = 1,
        *,
        retry_after: float | None = None,
        after: bool = False,
        late: float = 0,
        message: str = "",
    ) -> None:
        self._faults.append(Fault(call, status, times, retry_after, after, late, message))

    def made(self, call: str) -> int:
        """How often a call came."""
        return sum(1 for one in self.calls if re.fullmatch(call, one))

    def cut_connections(self) -> None:
        """Of all requests under way."""

        def cut() -> None:
            for transport in list(self._under_way):
                transport.abort()

        self._loop.call_soon_threadsafe(cut)

    def __enter__(self) -> Self:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._start(), self._loop).result(30)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        asyncio.run_coroutine_threadsafe(self._stop(), self._loop).result(30)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(30)

    async def _start(self) -> None:
        app = web.Application(middlewares=[self._middleware], client_max_size=1 << 40)
        one = "/api/sandbox/{id}"
        app.add_routes(
            [
                web.post("/api/sandbox", self._create),
                web.get("/api/sandbox", self._list),
                web.get(one, self._get),
                web.delete(one, self._delete),
                web.post(f"{one}/network-settings", self._network),
                web.get("/api/snapshots/{name}", self._snapshot),
                *daytona_toolbox.routes(self._started),
            ]
        )
        self._runner = web.AppRunner(app, shutdown_timeout=1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self._port)
        await site.start()
        self._port = self._runner.addresses[0][1]
        self.url = f"http://127.0.0.1:{self._port}/api"

    async def _stop(self) -> None:
        for task in self._booting:
            task.cancel()
        for sandbox in self.ever:
            await asyncio.to_thread(sandbox.box.remove)
        await self._runner.cleanup()

    @web.middleware
    async def _middleware(self, request: web.Request, handler: "web.Handler") -> web.StreamResponse:
        call = _ID.sub("/{id}", f"{request.method} {request.path}")
        self.calls.append(call)
        transport = request.transport
        if transport is not None:
            self._under_way.add(transport)
        fault = next((f for f in self._faults if f.times > 0 and re.fullmatch(f.call, call)), None)
        try:
            if fault is not None:
                fault.times -= 1
                if fault.late:
                    await request.read()  # it has arrived whole, though its client goes away
                    await asyncio.sleep(fault.late)
                    return await handler(request)
                if fault.after:
                    await handler(request)
                return await _spoilt(request, fault)
            if request.headers.get("Authorization") != f"Bearer {KEY}":
                return refusal(401, "Unauthorized")
            return await handler(request)
        except _RefusedError as refused:
            return refused.response
        finally:
            if transport is not None:
                self._under_way.discard(transport)

    def _found(self, request: web.Request) -> StandinSandbox:
        wanted = request.match_info["id"]
        for sandbox in self.sandboxes.values():
            if wanted in (sandbox.id, sandbox.name):
                return sandbox
        raise _RefusedError(refusal(404, f"Sandbox with ID or name {wanted} not found"))

    def _started(self, request: web.Request) -> StandinSandbox:
        sandbox = self._found(request)
        if sandbox.state != "started":
            raise _RefusedError(refusal(400, f"Sandbox is {sandbox.state}, not started"))
        sandbox.active = time.time()
        return sandbox

    def _shown(self, sandbox: StandinSandbox) -> web.Response:
        return web.json_response(sandbox.shown(f"http://127.0.0.1:{self._port}/toolbox"))

    async def _create(self, request: web.Request) -> web.Response:
        wanted = {"user": self.image_user, **await request.json()}
        sandbox = StandinSandbox(wanted, self.root, self.names)
        if any(other.name == sandbox.name for other in self.sandboxes.values()):
            return refusal(409, f"Sandbox with name {sandbox.name} already exists")
        if self.most_alive is not None and len(self.sandboxes) >= self.most_alive:
            limit = f"Maximum allowed: {self.most_alive}"
            return refusal(403, f"Total CPU limit exceeded. {limit}", "FORBIDDEN")
        self.sandboxes[sandbox.id] = sandbox
        self.ever.append(sandbox)
        task = asyncio.ensure_future(sandbox.boot(self.start_seconds))
        self._booting.add(task)
        task.add_done_callback(self._booting.discard)
        return self._shown(sandbox)

    async def _list(self, request: web.Request) -> web.Response:
        wanted = json.loads(request.query.get("labels") or "{}")
        size, start = int(request.query.get("limit") or 100), int(request.query.get("cursor") or 0)
        found = [s for s in self.sandboxes.values() if wanted.items() <= s.labels.items()]
        url = f"http://127.0.0.1:{self._port}/toolbox"
        items = [sandbox.shown(url) for sandbox in found[start : start + size]]
        following = str(start + size) if start + size < len(found) else None
        return web.json_response({"items": items, "nextCursor": following})

    async def _get(self, request: web.Request) -> web.Response:
        return self._shown(self._found(request))

    async def _delete(self, request: web.Request) -> web.Response:
        sandbox = self._found(request)
        if sandbox.refused_deletes > 0:
            sandbox.refused_deletes -= 1
            return refusal(409, "Sandbox state change in progress", "CONFLICT")
        sandbox.destroy()
        sandbox.state = "destroying" if self.delete_seconds else "destroyed"
        self._loop.call_later(self.delete_seconds, self.sandboxes.pop, sandbox.id, None)
        return self._shown(sandbox)

    async def _network(self, request: web.Request) -> web.Response:
        sandbox = self._started(request)
        change = await request.json()
        if change.get("networkBlockAll") is False:  # as Daytona: a stored list is cleared
            change = {"networkAllowList": None, "domainAllowList": None, **change}
        elif "networkBlockAll" not in change:
            change["networkBlockAll"] = False
        await sandbox.apply_network(change)
        return self._shown(sandbox)

    async def _snapshot(self, request: web.Request) -> web.Response:
        name = request.match_info["name"]
        if name not in self.snapshots:
            return refusal(404, f"Snapshot {name} not found")
        moment = "2025-01-01T00:00:00.000Z"
        none = dict.fromkeys(("size", "entrypoint", "errorReason", "lastUsedAt", "sourceSandboxId"))
        sizes = {"cpu": 1, "gpu": 0, "mem": 1, "disk": 3}
        about = {"id": name, "name": name, "general": True, "state": "active"}
        moments = {"createdAt": moment, "updatedAt": moment}
        return web.json_response({**about, **none, **sizes, **moments})


async def _spoilt(request: web.Request, fault: Fault) -> web.StreamResponse:
    if fault.status == -1:
        await asyncio.sleep(3600)
    if fault.status in (0, -1):
        if request.transport is not None:
            request.transport.abort()
        return web.Response()
    message = fault.message or ("Rate limit exceeded" if fault.status == 429 else "injected")
    response = refusal(fault.status, message)
    if fault.retry_after is not None:
        response.headers["Retry-After"] = str(fault.retry_after)
    return response


def main() -> None:
    with DaytonaServer(Path(sys.argv[1])) as server:
        print(server.url, flush=True)
        threading.Event().wait()


if __name__ == "__main__":
    main()
