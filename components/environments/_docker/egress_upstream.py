"""The proxy this machine itself has to use to get out, as its variables name it.

HTTPS_PROXY (tunnels), HTTP_PROXY (plain HTTP), ALL_PROXY and NO_PROXY, in either case, with
credentials in the address; a proxy may be spoken to over TLS.
"""

import asyncio
import base64
import ssl
from typing import NamedTuple
from urllib.parse import unquote, urlsplit
from urllib.request import getproxies_environment, proxy_bypass

from agentcompass.components.environments._docker.relay_server import BUFFER_BYTES

Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]

_PORTS = {"http": 80, "https": 443}


class Upstream(NamedTuple):
    host: str
    port: int
    tls: bool
    authorization: str
    """A header line with its end, or nothing."""


def upstream(scheme: str, host: str) -> Upstream | None:
    """None: `host` is reached directly. Raises OSError if the variable names no HTTP proxy."""
    proxies = getproxies_environment()
    address = proxies.get(scheme) or proxies.get("all")
    if not address or proxy_bypass(host):
        return None
    parts = urlsplit(address if "://" in address else f"http://{address}")
    try:
        port = parts.port or _PORTS.get(parts.scheme, 0)
    except ValueError:
        port = 0
    if parts.scheme not in _PORTS or not parts.hostname or not port:
        raise OSError(f"the proxy variable of this machine for {scheme} names no HTTP proxy")
    authorization = ""
    if parts.username is not None:
        pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        encoded = base64.b64encode(pair.encode()).decode()
        authorization = f"Proxy-Authorization: Basic {encoded}\r\n"
    return Upstream(parts.hostname, port, parts.scheme == "https", authorization)


async def dialled(proxy: Upstream) -> Stream:
    context = ssl.create_default_context() if proxy.tls else None
    return await asyncio.open_connection(proxy.host, proxy.port, ssl=context, limit=BUFFER_BYTES)


async def tunnelled(proxy: Upstream, host: str, port: int) -> Stream:
    """A connection to `host` through the proxy. Raises OSError with the proxy's own words."""
    reader, writer = await dialled(proxy)
    try:
        target = _authority(host, port)
        head = f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n{proxy.authorization}\r\n"
        writer.write(head.encode("ascii"))
        await writer.drain()
        try:
            reply = await reader.readuntil(b"\r\n\r\n")
        except (EOFError, asyncio.LimitOverrunError) as error:
            raise OSError("the proxy of this machine gave no answer") from error
        status = reply.split(b"\r\n", 1)[0].decode("latin-1")
        if status.split(" ")[1:2] != ["200"]:
            raise OSError(f"the proxy of this machine answers {status}")
    except BaseException:
        writer.transport.abort()
        raise
    return reader, writer


def absolute(proxy: Upstream, host: str, port: int, head: bytes) -> bytes:
    """The head of a plain request as a proxy wants it."""
    line, rest = head.split(b"\r\n", 1)
    method, path, version = line.split(b" ")
    target = b"http://" + _authority(host, port).encode("ascii") + path
    return b" ".join([method, target, version]) + b"\r\n" + proxy.authorization.encode() + rest


def _authority(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
