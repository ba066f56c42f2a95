"""What the daemon inside a sandbox answers in the Daytona stand-in: commands and files."""

import json
import secrets
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

from aiohttp import BodyPartReader, web

from tests.standins.daytona_sandbox import StandinSandbox

_DAEMON = "DAYTONA_DAEMON"
_BLOCK = 256 * 1024

FindSandbox = Callable[[web.Request], StandinSandbox]


def refusal(status: int, message: str, code: str = "", source: str = "DAYTONA_API") -> web.Response:
    answer = {"statusCode": status, "message": message, "code": code, "source": source}
    return web.json_response(answer, status=status)


def routes(find: FindSandbox) -> list[web.RouteDef]:
    """`find` gives the started sandbox that a request is for, or raises."""

    async def execute(request: web.Request) -> web.Response:
        wanted = await request.json()
        box = find(request).box
        ended = await box.exec(wanted["command"], wanted.get("timeout") or 360)
        if ended.timed_out:
            return refusal(408, "command execution timeout", "PROCESS_EXECUTION_TIMEOUT", _DAEMON)
        text = ended.output.decode(errors="replace")
        return web.json_response({"exitCode": ended.exit_code, "result": text})

    async def work_dir(request: web.Request) -> web.Response:
        find(request)
        return web.json_response({"dir": "/root"})

    async def upload(request: web.Request) -> web.Response:
        sandbox = find(request)
        target = ""
        async for part in await request.multipart():
            assert isinstance(part, BodyPartReader)
            if not (part.name or "").endswith(".file"):
                target = await part.text()
                continue
            path = sandbox.box.path(target)
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                with path.open("wb") as file:
                    while block := await part.read_chunk(_BLOCK):
                        file.write(block)
            except OSError as error:
                return refusal(400, f"{error.strerror}: {target}", "INVALID_FILE_PATH", _DAEMON)
        return web.json_response({"uploaded": []})

    async def download(request: web.Request) -> web.StreamResponse:
        sandbox = find(request)
        paths = (await request.json())["paths"]
        boundary = secrets.token_hex(16)
        response = web.StreamResponse()
        response.content_type = "multipart/form-data"
        response.headers["Content-Type"] = f"multipart/form-data; boundary={boundary}"
        await response.prepare(request)
        for name in paths:
            try:
                with sandbox.box.path(name).open("rb") as file:
                    await response.write(_head(boundary, "file", "application/octet-stream", name))
                    while block := file.read(_BLOCK):
                        await response.write(block)
            except OSError as error:
                missing = isinstance(error, FileNotFoundError)
                answer: dict[str, Any] = {
                    "message": f"{error.strerror}: {name}",
                    "statusCode": 404 if missing else 400,
                    "code": "FILE_NOT_FOUND" if missing else "INVALID_FILE_PATH",
                    "source": _DAEMON,
                }
                await response.write(_head(boundary, "error", "application/json", name))
                await response.write(json.dumps(answer).encode())
            await response.write(b"\r\n")
        await response.write(f"--{boundary}--\r\n".encode())
        await response.write_eof()
        return response

    box = "/toolbox/{id}"
    return [
        web.get(f"{box}/work-dir", work_dir),
        web.post(f"{box}/process/execute", execute),
        web.post(f"{box}/files/bulk-upload", upload),
        web.post(f"{box}/files/bulk-download", download),
    ]


def _head(boundary: str, kind: str, content_type: str, name: str) -> bytes:
    quoted = quote(name, safe="")
    return (
        f'--{boundary}\r\nContent-Disposition: form-data; name="{kind}"; '
        f"filename*=UTF-8''{quoted}; filename=\"{quoted}\"\r\n"
        f"Content-Type: {content_type}\r\n\r\n"
    ).encode()
