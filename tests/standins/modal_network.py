"""The network of a stand-in's sandbox: a wire to this machine, and routes for what it may reach.

The machine's own addresses play the outside world (a test adds some to `lo`); there is no way
further out. A policy is a set of routes, which ends open connections as well when it shrinks.
"""

import asyncio
import ipaddress
import secrets
import socket
from collections.abc import Mapping, Sequence

from modal_proto import api_pb2 as api


class OutsideAddress:
    """An address of this machine that sandboxes reach where their policy lets them."""

    def __init__(self) -> None:
        number = 1 + secrets.randbelow(65_000)
        self.address = str(ipaddress.ip_address("198.19.0.0") + number)

    async def add(self) -> None:
        if not await _run(["ip", "-batch", "-"], [f"addr add {self.address}/32 dev lo"]):
            raise OSError(f"{self.address} cannot be added to lo")

    async def remove(self) -> None:
        await _run(["ip", "-batch", "-"], [f"addr del {self.address}/32 dev lo"])


class SandboxNetwork:
    """Of the sandbox whose first process is `pid`. `names` are the hosts that resolve inside."""

    def __init__(self, pid: int, names: Mapping[str, str]) -> None:
        self._inside = ["nsenter", "-t", str(pid), "-n", "ip", "-force", "-batch", "-"]
        self._pid, self._names = pid, names
        self._gateway = self._wire = ""

    async def remove(self) -> None:
        """A wire whose sandbox was killed while it was made goes with nobody."""
        if self._wire:
            await _run(["ip", "-batch", "-"], [f"link del {self._wire}"])

    async def apply(self, access: api.NetworkAccess) -> None:
        allowed = await asyncio.to_thread(_allowed, access, self._names)
        if allowed and not self._gateway:
            await self._connect()
        if self._gateway:
            # `onlink`: the wire's own route goes as well, or its far end would stay reachable
            routes = [f"route add {cidr} via {self._gateway} dev wire onlink" for cidr in allowed]
            await _run(self._inside, ["route flush dev wire", *routes])

    async def _connect(self) -> None:
        for _ in range(20):
            name = f"mo{secrets.token_hex(5)}"
            number = 2 * secrets.randbelow(32768)
            gateway = ipaddress.ip_address("198.18.0.0") + number
            inner = gateway + 1
            lines = [
                f"link add {name} type veth peer name wire netns {self._pid}",
                f"addr add {gateway}/31 dev {name}",
                f"link set {name} up",
            ]
            self._wire = name
            if await _run(["ip", "-batch", "-"], lines):
                await _run(self._inside, [f"addr add {inner}/31 dev wire", "link set wire up"])
                self._gateway = str(gateway)
                return
        raise OSError("no wire to the sandbox could be made")


def _allowed(access: api.NetworkAccess, names: Mapping[str, str]) -> Sequence[str]:
    match access.network_access_type:
        case api.NetworkAccess.BLOCKED:
            return []
        case api.NetworkAccess.ALLOWLIST:
            allowed = [cidr for cidr in access.allowed_cidrs if ":" not in cidr]
            for domain in access.allowed_domains:
                for name, address in names.items():
                    suffix = domain.removeprefix("*")
                    if name == domain or (suffix != domain and name.endswith(suffix)):
                        allowed.append(f"{address}/32")
                if domain not in names and "*" not in domain:
                    allowed += _resolved(domain)
            return allowed
    return ["0.0.0.0/0"]


def _resolved(domain: str) -> list[str]:
    try:
        found = socket.getaddrinfo(domain, None, socket.AF_INET, socket.SOCK_STREAM)
    except OSError:
        return []
    return [f"{address[4][0]}/32" for address in found]


async def _run(argv: Sequence[str], lines: Sequence[str]) -> bool:
    process = await asyncio.create_subprocess_exec(
        *argv,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    await process.communicate("".join(f"{line}\n" for line in lines).encode())
    return process.returncode == 0
