"""Network policies as Modal takes them.

Modal has open, blocked, and lists of addresses (any protocol and port) and of names (TLS at
port 443 only) that are allowed; no deny-lists. See modal.com/docs/guide/sandbox-networking.
The list of a running sandbox is replaced through a call the SDK marks as experimental, which
also ends connections that are no longer allowed. Nothing allowed at all is an empty list.
"""

import ipaddress
from typing import Any
from urllib.parse import urlsplit

from agentcompass.components.contracts.requirements import (
    AllowedHosts,
    DeniedHosts,
    Network,
    NetworkPolicy,
    SandboxPhase,
)

PHASES: tuple[SandboxPhase, ...] = ("baseline", "run", "evaluation")


def problems(network: Network) -> list[str]:
    """What of these policies Modal cannot enforce."""
    found = []
    for phase in PHASES:
        match network.during(phase):
            case DeniedHosts():
                found.append("modal cannot enforce a deny-list of hosts; allow some instead")
            case AllowedHosts(allow=hosts):
                found += [
                    f"modal cannot allow {host}: names at port 443, addresses at all ports"
                    for host in hosts
                    if not _expressible(*_split_port(host))
                ]
    return list(dict.fromkeys(found))


def for_create(network: Network) -> dict[str, Any]:
    """Arguments of Sandbox.create: the baseline, so that the other phases can follow."""
    policy = network.during("baseline")
    if policy == "none" and all(network.during(phase) == "none" for phase in PHASES):
        return {"block_network": True}
    return for_change(policy)


def for_change(policy: NetworkPolicy, also: frozenset[str] = frozenset()) -> dict[str, Any]:
    """The lists that put a policy in force, with some hosts more."""
    match policy:
        case "public" | DeniedHosts():
            return {}
        case "none":
            hosts: tuple[str, ...] = ()
        case AllowedHosts(allow=hosts):
            pass
    addresses, names = [], []
    for host in (*hosts, *sorted(also)):
        address = _address(_split_port(host)[0])
        if address is None:
            names.append(_split_port(host)[0])
        else:
            addresses.append(address)
    return {"outbound_cidr_allowlist": addresses, "outbound_domain_allowlist": names}


def host_of(url: str) -> str:
    return (urlsplit(url).hostname or "").rstrip(".")


def can_be_let_through(url: str) -> bool:
    """Whether a list of allowed hosts can make an endpoint reachable."""
    parts = urlsplit(url)
    by_name = parts.scheme == "https" and parts.port in (None, 443)
    return by_name or _address(host_of(url)) is not None


def is_private(host: str) -> bool:
    """Whether only this machine or its own network sees a host of this name."""
    try:
        return not ipaddress.ip_address(host).is_global
    except ValueError:
        return host == "localhost" or host.endswith((".localhost", ".local")) or "." not in host


def _expressible(host: str, port: int | None) -> bool:
    return port is None or (port == 443 and _address(host) is None)


def _split_port(host: str) -> tuple[str, int | None]:
    name, _, port = host.rpartition(":")
    if name and port.isdigit() and ":" not in name:
        return name, int(port)
    return host, None


def _address(host: str) -> str | None:
    try:
        return str(ipaddress.ip_network(host, strict=False))
    except ValueError:
        return None
