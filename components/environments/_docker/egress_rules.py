"""What an allow or a deny list says about a name or an address and a port."""

import socket
from collections.abc import Awaitable, Callable, Sequence
from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)
from typing import NamedTuple

from agentcompass.components.contracts.requirements import AllowedHosts, DeniedHosts

Address = IPv4Address | IPv6Address
Resolver = Callable[[str], Awaitable[Sequence[str]]]
"""The addresses of a name; raises OSError."""

_NAMED = 5  # hosts of a list quoted in a refusal
_THIS_NETWORK = IPv4Network("0.0.0.0/8")
_TRANSLATED = IPv6Network("64:ff9b::/96")


class Refused(Exception):
    """The policy says no; the message tells which, and why."""


class Rules:
    """The judgement of one policy.

    A list tells hosts apart by the name that was asked for and by the address that is connected
    to. Sites that share an address are not told apart once connected. Addresses of the host
    itself (loopback, link-local with the metadata services of clouds) are only for those who
    list them: our process reaches them, a program in a container never would.
    """

    def __init__(self, policy: AllowedHosts | DeniedHosts) -> None:
        self._allow = isinstance(policy, AllowedHosts)
        hosts = policy.allow if isinstance(policy, AllowedHosts) else policy.deny
        rules = [_Rule.of(host) for host in hosts]
        self._names = [rule for rule in rules if rule.network is None]
        self._networks = [rule for rule in rules if rule.network is not None]
        quoted = ", ".join(hosts[:_NAMED]) + (", …" if len(hosts) > _NAMED else "")
        self.said = f"{'allow' if self._allow else 'deny'}: {quoted or 'nothing'}"

    async def addresses(self, host: str, port: int, resolve: Resolver) -> list[str]:
        """Where a connection to `host` may go, in the order of preference.

        Raises Refused, and OSError if the name does not resolve. A name that no rule could allow
        is not even looked up: a look-up is a message to the outside, too.
        """
        name = host.rstrip(".").lower()
        literal = numeric(name)
        if self._allow:
            return await self._allowed(name, literal, port, resolve)
        return await self._not_denied(name, literal, port, resolve)

    def trusts_name(self, host: str, port: int) -> bool:
        """The name alone decides: for a machine whose proxy looks up what it cannot."""
        name = host.rstrip(".").lower()
        if numeric(name) is not None or _here(name):
            return False
        if any(rule.on(port) for rule in self._networks):
            return False
        return self._allow == any(rule.names(name, port) for rule in self._names)

    async def _allowed(
        self, name: str, literal: Address | None, port: int, resolve: Resolver
    ) -> list[str]:
        named = literal is None and any(rule.names(name, port) for rule in self._names)
        listed = [rule for rule in self._networks if rule.on(port)]
        if not named and not listed:
            raise self._refusal(f"{name}:{port}")
        found = [literal] if literal else _addresses(await resolve(name))
        here = named and _here(name)
        permitted, own = [], False
        for address in found:
            if any(rule.holds(address) for rule in listed) or (named and (here or _far(address))):
                permitted.append(str(address))
            else:
                own = own or (named and not _far(address))
        if not permitted and own:
            raise self._refusal(f"{name}:{port}", f"{found[0]} is an address of this machine")
        if not permitted:
            raise self._refusal(f"{name}:{port}")
        return permitted

    async def _not_denied(
        self, name: str, literal: Address | None, port: int, resolve: Resolver
    ) -> list[str]:
        if literal is None and any(rule.names(name, port) for rule in self._names):
            raise self._refusal(f"{name}:{port}")
        listed = [rule for rule in self._networks if rule.on(port)]
        found = [literal] if literal else _addresses(await resolve(name))
        twins = await self._denied_twins(port, resolve) if literal else set()
        allowed = [
            address
            for address in found
            if address not in twins
            and not any(rule.holds(form) for rule in listed for form in _forms(address))
        ]
        if not allowed:
            raise self._refusal(f"{name}:{port}")
        if not any(_far(address) for address in allowed):
            raise self._refusal(f"{name}:{port}", f"{allowed[0]} is an address of this machine")
        return [str(address) for address in allowed if _far(address)]

    async def _denied_twins(self, port: int, resolve: Resolver) -> set[Address]:
        """Addresses of the denied names: who asks for a bare address may mean such a name."""
        twins: set[Address] = set()
        for rule in self._names:
            if rule.on(port) and not rule.below:
                try:
                    twins.update(_addresses(await resolve(rule.name)))
                except OSError:
                    continue  # a name that leads nowhere denies no address
        return twins

    def _refusal(self, target: str, why: str = "") -> Refused:
        return Refused(
            f"the network policy of this phase ({self.said}) refuses {target}"
            + (f": {why}" if why else "")
        )


class _Rule(NamedTuple):
    name: str
    below: bool
    """`*.name`."""
    network: IPv4Network | IPv6Network | None
    port: int | None

    @classmethod
    def of(cls, text: str) -> "_Rule":
        host, port = text, None
        if text.count(":") == 1:  # more: an IPv6 address, which has no port here
            host, _, digits = text.partition(":")
            port = int(digits)
        if "/" in host:
            return cls(host, False, ip_network(host, strict=False), port)
        if (address := numeric(host)) is not None:
            return cls(host, False, ip_network(address), port)
        return cls(host.removeprefix("*."), host.startswith("*."), None, port)

    def on(self, port: int) -> bool:
        return self.port is None or self.port == port

    def names(self, name: str, port: int) -> bool:
        matches = name.endswith(f".{self.name}") if self.below else name == self.name
        return matches and self.on(port)

    def holds(self, address: Address) -> bool:
        return self.network is not None and address in self.network


def numeric(host: str) -> Address | None:
    """The address a host is, in any way of writing it that a resolver would take; else None."""
    try:
        return _plain(ip_address(host.strip("[]").partition("%")[0]))
    except ValueError:
        pass
    try:
        return IPv4Address(socket.inet_aton(host)) if host and not host[0].isspace() else None
    except OSError:  # 127.1, 0x7f000001 and 2130706433 are none either
        return None


def _here(name: str) -> bool:
    return name == "localhost" or name.endswith(".localhost")


def _addresses(texts: Sequence[str]) -> list[Address]:
    found = [address for text in texts if (address := numeric(text)) is not None]
    return list(dict.fromkeys(found))


def _plain(address: Address) -> Address:
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address


def _forms(address: Address) -> list[Address]:
    """The address, and the IPv4 one it would be translated to on its way."""
    forms: list[Address] = [address]
    if isinstance(address, IPv6Address):
        if address.sixtofour is not None:
            forms.append(address.sixtofour)
        if address in _TRANSLATED:
            forms.append(IPv4Address(int(address) & 0xFFFFFFFF))
    return forms


def _far(address: Address) -> bool:
    """Not the host itself, and not what only the host reaches."""
    return not any(
        form.is_loopback
        or form.is_link_local
        or form.is_unspecified
        or form.is_multicast
        or form in _THIS_NETWORK
        for form in _forms(address)
    )
