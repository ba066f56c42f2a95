"""The walls around one isolated `host_process` sandbox: how it is made, and how its network
changes from phase to phase."""

import asyncio
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Literal

from agentcompass.components.contracts.errors import AgentCompassError, Code
from agentcompass.components.contracts.requirements import Network, SandboxPhase
from agentcompass.components.contracts.sandbox import ExecResult
from agentcompass.components.environments._host import bubblewrap_model as model
from agentcompass.components.environments._host.bubblewrap_guard import AGAIN
from agentcompass.components.environments._host.bubblewrap_view import (
    FOLDERS,
    HOME,
    SOCKETS,
    USER,
    WORKDIR,
    Bubblewrap,
    arguments,
    files,
)
from agentcompass.components.environments._host.link import KeeperLink

_UNPRIVILEGED = 64_999
"""Who commands run as when we are root: a number that no account is given by custom."""
_INSTALL = "bubblewrap is not installed: apt install bubblewrap (or your system's package of it)"

NetworkState = Literal["public", "none"]


def find() -> Bubblewrap:
    """Raises AgentCompassError(environment.start) with the way to install it. Blocking."""
    path = shutil.which("bwrap")
    if path is None:
        raise AgentCompassError(Code.ENVIRONMENT_START, _INSTALL)
    return _examined(path)


@cache
def _examined(path: str) -> Bubblewrap:
    told = subprocess.run(
        [path, "--help"], capture_output=True, text=True, timeout=30, check=False, env={}
    )
    return Bubblewrap(path, "--disable-userns" in told.stdout + told.stderr)


def explained(error: AgentCompassError) -> AgentCompassError:
    """What bubblewrap said when it could not start, with a way out."""
    reason = str(error)
    if not any(word in reason for word in ("namespace", "uid map", "Operation not permitted")):
        return error
    return AgentCompassError(
        error.code,
        f"this machine forbids the namespaces that bubblewrap needs ({reason}): allow user "
        "namespaces (sysctl kernel.apparmor_restrict_unprivileged_userns=0 on Ubuntu, "
        "user.max_user_namespaces elsewhere; in a container --privileged), or use --env docker",
    )


@dataclass(frozen=True)
class Plan:
    """How one sandbox's walls are to be built."""

    text: str
    """For its guard."""
    workdir: str
    owner: int | None
    """Who commands run as and files belong to; None: who runs us."""
    network: Network


def plan(root: str, workdir: str | None, network: Network, path: str) -> Plan:
    """Raises AgentCompassError(environment.start). Blocking: it looks at the search path."""
    bubblewrap = find()
    owner = _UNPRIVILEGED if os.geteuid() == 0 else None
    place = workdir or WORKDIR

    def command(public: bool) -> list[str]:
        return arguments(
            bubblewrap,
            root,
            workdir=place,
            user=owner,
            path=path,
            python=os.path.realpath(sys.executable),
            python_root=os.path.realpath(sys.base_prefix),
            network=public,
        )

    machine = Path("/etc/hosts")
    hosts = machine.read_text(errors="replace") if machine.exists() else ""
    text = {
        "first": network_state(network, "baseline"),
        "commands": {"public": command(True), "none": command(False)},
        "folders": FOLDERS,
        "files": {**files(owner), "hosts": model.hosts_file((), hosts)},
        "private": (SOCKETS,),
        "user": owner,
    }
    return Plan(json.dumps(text), place, owner, network)


def network_state(network: Network, phase: SandboxPhase) -> NetworkState:
    """Raises AgentCompassError(environment.start) for a list of hosts."""
    policy = network.during(phase)
    if policy == "public" or policy == "none":
        return policy
    raise AgentCompassError(
        Code.ENVIRONMENT_START,
        "host_process with bubblewrap knows the network policies public and none only; "
        "use --env docker for lists of hosts",
    )


def variables(shell: str, path: str) -> dict[str, str]:
    """Those that tell a command where it is."""
    return {
        "PATH": path,
        "HOME": HOME,
        "TMPDIR": "/tmp",  # noqa: S108 (its own)
        "SHELL": shell,
        "USER": USER,
        "LOGNAME": USER,
    }


@dataclass
class Walls:
    """Satisfies what HostSandbox asks of its isolation."""

    link: KeeperLink
    plan: Plan
    run: Callable[[Sequence[str]], Awaitable[ExecResult]]
    """Runs a command inside."""
    state: NetworkState = field(init=False)

    def __post_init__(self) -> None:
        self.state = network_state(self.plan.network, "baseline")
        self._sockets = model.ModelSockets(Path(self.link.root, SOCKETS))

    async def enter(self, phase: SandboxPhase) -> None:
        """Where the network changes everything that runs is ended: a process keeps the network
        it was born with, and one born without must not get to another's."""
        wanted = network_state(self.plan.network, phase)
        if wanted == self.state:
            return
        await self.link.again(AGAIN[wanted])
        self.state = wanted
        self._tell_names()
        if wanted == "none":
            for endpoint in self._sockets.endpoints:
                await self._forward(endpoint)

    async def model_address(self, base_url: str) -> str:
        """For the phase under way: ask again after a change of network."""
        if self.state == "public":
            return base_url
        endpoint = model.endpoint_of(base_url)
        if endpoint not in self._sockets.endpoints:
            await self._sockets.offer(endpoint)
            self._tell_names()
            await self._forward(endpoint)
        return endpoint.address

    async def close(self) -> None:
        await self._sockets.close()

    async def _forward(self, endpoint: model.Endpoint) -> None:
        listening = await self.run(
            [
                os.path.realpath(sys.executable),
                *("-I", "-S", "-c", model.FORWARDER, str(endpoint.inner_port)),
                f"/run/{SOCKETS}/{endpoint.socket_name}",
            ]
        )
        if not listening.ok:
            reason = listening.stderr.strip().rpartition("\n")[2]
            raise AgentCompassError(
                Code.ENVIRONMENT_SETUP, f"the model endpoint cannot be led into a sandbox: {reason}"
            )

    def _tell_names(self) -> None:
        path = Path(self.link.root, "hosts")
        lines = path.read_text(errors="replace").split("\n", 2)
        endpoints = self._sockets.endpoints if self.state == "none" else ()
        model.rewrite(path, model.hosts_file(endpoints, lines[2]))


async def walls_plan(root: str, workdir: str | None, network: Network, path: str) -> Plan:
    """`plan` off the event loop."""
    return await asyncio.to_thread(plan, root, workdir, network, path)
