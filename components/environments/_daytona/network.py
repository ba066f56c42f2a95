"""What a Daytona sandbox reaches, phase by phase, in Daytona's own terms."""

import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from agentcompass.components.contracts.errors import AgentCompassError, Code
from agentcompass.components.contracts.requirements import (
    AllowedHosts,
    DeniedHosts,
    Network,
    NetworkPolicy,
    SandboxPhase,
)
from agentcompass.components.environments._daytona import calls

if TYPE_CHECKING:
    from agentcompass.components.environments._daytona.commands import DaytonaCommands


@dataclass(frozen=True)
class NetworkSettings:
    """Neither blocked nor with a list: everything is reachable."""

    block_all: bool = False
    cidrs: frozenset[str] = field(default_factory=frozenset)
    domains: frozenset[str] = field(default_factory=frozenset)

    @property
    def network_allow_list(self) -> str | None:
        return ",".join(sorted(self.cidrs)) or None

    @property
    def domain_allow_list(self) -> str | None:
        return ",".join(sorted(self.domains)) or None


def settings(policy: NetworkPolicy, also: Iterable[str] = ()) -> NetworkSettings:
    """`also`: hosts let through whatever the policy. Raises ValueError for what Daytona has not."""
    match policy:
        case "public":
            return NetworkSettings()
        case DeniedHosts():
            raise ValueError("Daytona can allow hosts but not deny them; use {allow: [hosts]}")
        case AllowedHosts(allow=hosts):
            wanted = [*hosts, *also]
        case _:
            wanted = list(also)
    if not wanted:
        return NetworkSettings(block_all=True)
    cidrs, domains = set(), set()
    for host in wanted:
        try:
            network = ipaddress.ip_network(host, strict=False)
        except ValueError:
            if ":" in host:
                raise ValueError(
                    f"Daytona allows whole hosts, not single ports: write {host.partition(':')[0]}"
                ) from None
            domains.add(host)
            continue
        if network.version != 4:
            raise ValueError(f"Daytona allows IPv4 ranges only, not {host}")
        cidrs.add(str(network))
    return NetworkSettings(False, frozenset(cidrs), frozenset(domains))


class DaytonaNetwork:
    """Of one sandbox, which opens in `baseline`."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self._phase: SandboxPhase = "baseline"
        self._also: tuple[str, ...] = ()
        self.current = settings(network.during("baseline"))

    async def enter(self, commands: "DaytonaCommands", phase: SandboxPhase) -> None:
        """Raises `environment.setup` when Daytona does not put the policy in force."""
        self._phase = phase
        await self._apply(commands)

    async def let_through(self, commands: "DaytonaCommands", url: str) -> None:
        """A model endpoint stays reachable in every phase."""
        host = (urlsplit(url).hostname or "").lower()
        if not host or _only_here(host):
            raise AgentCompassError(
                Code.ENVIRONMENT_SETUP,
                f"a Daytona sandbox cannot reach {url}, which only this machine sees; give the "
                "model an address on the internet, or use --env docker",
            )
        self._also = (host,)
        await self._apply(commands)

    async def _apply(self, commands: "DaytonaCommands") -> None:
        try:
            wanted = settings(self._network.during(self._phase), self._also)
        except ValueError as error:
            raise AgentCompassError(Code.ENVIRONMENT_SETUP, str(error)) from error
        if wanted == self.current:
            return
        listed = bool(wanted.cidrs or wanted.domains)
        if not listed:
            await self._update(commands, wanted.block_all, None, None)
        elif not await self._listed(commands, wanted):
            # A list of before that the new one does not replace: only opening clears it.
            await self._update(commands, False, None, None)
            await self._listed(commands, wanted)
        sandbox = commands.sandbox
        now = NetworkSettings(
            bool(sandbox.network_block_all),
            _parts(sandbox.network_allow_list),
            _parts(sandbox.domain_allow_list),
        )
        if now.block_all != wanted.block_all or (
            not wanted.block_all and (now.cidrs, now.domains) != (wanted.cidrs, wanted.domains)
        ):
            raise AgentCompassError(
                Code.ENVIRONMENT_SETUP,
                f"Daytona did not put the network policy of the {self._phase} phase in force "
                f"(asked for {wanted}, it says {now})",
            )
        self.current = wanted

    async def _listed(self, commands: "DaytonaCommands", wanted: NetworkSettings) -> bool:
        """Closed first: no moment has more than the lists of before and after."""
        await self._update(commands, True, None, None)
        await self._update(commands, None, wanted.network_allow_list, wanted.domain_allow_list)
        sandbox = commands.sandbox
        return (
            _parts(sandbox.network_allow_list) == wanted.cidrs
            and _parts(sandbox.domain_allow_list) == wanted.domains
        )

    async def _update(
        self,
        commands: "DaytonaCommands",
        block_all: bool | None,
        cidrs: str | None,
        domains: str | None,
    ) -> None:
        try:
            await calls.call(
                lambda: commands.sandbox.update_network_settings(
                    network_block_all=block_all,
                    network_allow_list=cidrs,
                    domain_allow_list=domains,
                )
            )
        except Exception as error:  # whatever the SDK and its transports raise
            if calls.status_of(error) in (400, 403, 422):
                raise AgentCompassError(
                    Code.ENVIRONMENT_SETUP,
                    f"Daytona refuses the network policy: {calls.one_line(error)}",
                ) from error
            raise await commands.lost(error) from error


def _parts(text: str | None) -> frozenset[str]:
    return frozenset(part.strip() for part in (text or "").split(",") if part.strip())


def _only_here(host: str) -> bool:
    if host == "localhost" or host.endswith((".localhost", ".local", ".internal")):
        return True
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return "." not in host
    return address.is_loopback or address.is_link_local or address.is_unspecified
