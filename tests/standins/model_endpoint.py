"""A scriptable model endpoint on loopback, for tests and for trying things by hand.

    with ModelServer(lambda request: Reply(text="42")) as endpoint:
        … endpoint.base_url …        # http://127.0.0.1:PORT/v1
        endpoint.requests            # what came in: path, headers, body, time, in-flight count

    python -m tests.standins.model_endpoint --script FILE [--port P]

Serves `…/chat/completions`, `…/responses` and `…/messages` below any path, also
streaming; anything else is a 404 that names the URL. `model_script.py` describes script files.
The server runs in a thread of its own; closing it drops what hangs.
"""

import argparse
import asyncio
import json
import threading
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from aiohttp import web

from tests.standins import model_events, model_wire
from tests.standins.model_script import FileScript, Reply, RequestInfo, Script, load


class ModelServer:
    def __init__(self, script: Script | Mapping[str, Any], *, mode: str | None = None) -> None:
        self._script = script if callable(script) else FileScript(script)
        self._mode = mode or getattr(self._script, "mode", None)
        self.requests: list[RequestInfo] = []
        self.in_flight = 0
        self.most_in_flight = 0
        self._conversations: Counter[str] = Counter()
        self._reasoning: dict[tuple[str, int], list[Any]] = {}
        self._ready = threading.Event()
        self._failure: Exception | None = None
        self._port = 0

    def __enter__(self) -> "ModelServer":
        self._thread = threading.Thread(target=self._serve, daemon=True, name="model-endpoint")
        self._thread.start()
        self._ready.wait(30)
        if self._failure is not None:
            raise self._failure
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(30)

    def open(self, port: int = 0) -> "ModelServer":
        self._port = port
        return self.__enter__()

    @property
    def root(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    @property
    def base_url(self) -> str:
        return f"{self.root}/v1"

    @property
    def open_connections(self) -> int:
        """Sockets clients hold open, idle ones included."""
        return len(self._runner.server.connections) if self._runner.server else 0

    def _serve(self) -> None:
        asyncio.run(self._main())

    async def _main(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        self._started = time.monotonic()
        app = web.Application(client_max_size=256 * 1024 * 1024)
        app.router.add_route("*", "/{path:.*}", self._answer)
        self._runner = web.AppRunner(
            app, handler_cancellation=True, access_log=None, shutdown_timeout=0.1
        )
        try:
            await self._runner.setup()
            site = web.TCPSite(self._runner, "127.0.0.1", self._port, backlog=512)
            await site.start()
            self._port = self._runner.addresses[0][1]
        except OSError as error:
            self._failure = error
            self._ready.set()
            return
        self._ready.set()
        await self._stop.wait()
        await self._runner.cleanup()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            info = await self._info(request)
            if isinstance(info, web.Response):
                return info
            self.requests.append(info)
            return await self._send(request, info, self._checked(info) or self._script(info))
        finally:
            self.in_flight -= 1

    async def _info(self, request: web.Request) -> RequestInfo | web.Response:
        protocol = next(
            (
                protocol
                for end, protocol in model_wire.PROTOCOLS.items()
                if request.path.endswith(end.removeprefix("/v1"))
            ),
            "",
        )
        if request.method != "POST" or not protocol or "/v1/v1/" in request.path:
            message = f"Invalid URL ({request.method} {request.path_qs})"
            return web.json_response({"error": {"message": message}}, status=404)
        try:
            body = json.loads(await request.read())
        except ValueError:
            return web.json_response({"error": {"message": "the body is not JSON"}}, status=400)
        items = model_wire.conversation(protocol, body)
        first, step = model_wire.first_user(items), model_wire.step(items)
        return RequestInfo(
            number=len(self.requests) + 1,
            protocol=protocol,
            path=request.path_qs,
            headers={k.lower(): v for k, v in request.headers.items()},
            body=body,
            first_user=first,
            step=step,
            attempt=self._attempt(first, step, items),
            at_seconds=time.monotonic() - self._started,
            in_flight=self.in_flight,
        )

    def _attempt(self, first: str, step: int, items: list[Mapping[str, Any]]) -> int:
        if step == 0:
            return self._conversations[first] + 1
        for call_id in model_wire.call_ids(items):
            if call_id.startswith("call_a"):
                return int(call_id.removeprefix("call_a").partition("s")[0])
        return max(1, self._conversations[first])

    def _checked(self, info: RequestInfo) -> Reply | None:
        """The refusal of `mode`, if this request earns one."""
        items = model_wire.conversation(info.protocol, info.body)
        if self._mode == "strict_fields" and (name := model_wire.unknown_field(items)):
            return _refusal(f"Unrecognized request argument supplied: messages.{name}")
        if self._mode == "reasoning_required":
            sent = self._reasoning.get((info.first_user, info.attempt), [])[: info.step]
            if sent and model_wire.reasoning_sent_back(items) != sent:
                return _refusal("The reasoning of the previous turn must be passed back unchanged")
        return None

    async def _send(
        self, request: web.Request, info: RequestInfo, reply: Reply
    ) -> web.StreamResponse:
        await asyncio.sleep(reply.delay_seconds)
        if reply.hang:
            await asyncio.Event().wait()
        if reply.reset:
            assert request.transport is not None
            request.transport.abort()
            return web.Response()
        data = reply.body.encode() if reply.body is not None else self._normal(info, reply)
        streams = info.body.get("stream") is True and reply.body is None and reply.status == 200
        response = web.StreamResponse(status=reply.status, headers=reply.sent_headers())
        response.content_type = "text/event-stream" if streams else reply.content_type
        parts = list(model_events.events(info.protocol, json.loads(data))) if streams else [data]
        if not streams:
            response.content_length = len(data)
        if reply.status == 200 and info.step == 0:
            self._conversations[info.first_user] += 1
        await response.prepare(request)
        if reply.drip_seconds is not None:
            for byte in data:
                await response.write(bytes([byte]))
                await asyncio.sleep(reply.drip_seconds)
            return response
        if reply.stall:
            await response.write(parts[0] if streams else data[: len(data) // 2])
            await asyncio.Event().wait()
        for part in parts:
            await response.write(part)
        return response

    def _normal(self, info: RequestInfo, reply: Reply) -> bytes:
        if reply.status != 200:
            error = {"message": reply.text or "refused", "type": None, "code": None}
            return json.dumps({"error": error}).encode()
        if reply.reasoning is not None:
            sent = self._reasoning.setdefault((info.first_user, info.attempt), [])
            del sent[info.step :]
            sent.append(model_wire.reasoning_payload(info.protocol, reply))
        prefix = f"call_a{info.attempt}s{info.step}"
        model = str(info.body.get("model", ""))
        return json.dumps(model_wire.render(info.protocol, reply, model, prefix)).encode()


def _refusal(message: str) -> Reply:
    error = {"message": message, "type": "invalid_request_error", "code": None}
    return Reply(status=400, body=json.dumps({"error": error}))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.standins.model_endpoint")
    parser.add_argument("--script", type=Path, help="YAML or JSON; without it: answers 'ok'")
    parser.add_argument("--port", type=int, default=0)
    options = parser.parse_args()
    endpoint = ModelServer(load(options.script) if options.script else {}).open(options.port)
    print(endpoint.base_url, flush=True)
    threading.Event().wait()


if __name__ == "__main__":
    main()
