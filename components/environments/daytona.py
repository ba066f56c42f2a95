"""Sandboxes in the Daytona cloud (or your own Daytona), by its SDK.

The key is read from the environment variable DAYTONA_API_KEY. A sandbox never stops for being
idle, and Daytona itself deletes it once its lifetime is over, whatever became of AgentCompass.
"""

import asyncio
import logging
import math
import os
import tempfile
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated

from pydantic import Field

from agentcompass.components.configuration.variables import resolved
from agentcompass.components.contracts.errors import AgentCompassError, Code, RequestError
from agentcompass.components.contracts.parameters import EnvironmentParameters
from agentcompass.components.contracts.protocols import Component
from agentcompass.components.contracts.requirements import Requirements
from agentcompass.components.contracts.sandbox import (
    Capabilities,
    Environment,
    Leftover,
    SandboxLabel,
)
from agentcompass.components.contracts.waiting import to_its_end
from agentcompass.components.environments._daytona import calls, opening
from agentcompass.components.environments._daytona.client import DaytonaClients
from agentcompass.components.environments._daytona.image import wanted
from agentcompass.components.environments._daytona.labels import OURS, labels, leftover, new_name
from agentcompass.components.environments._daytona.network import DaytonaNetwork
from agentcompass.components.environments._daytona.preflight import preflight
from agentcompass.components.environments._daytona.sandbox import DaytonaSandbox
from agentcompass.components.environments._quiet_commands import QUIET_COMMANDS

_log = logging.getLogger(__name__)

_MARGIN_MINUTES = 15
"""Of Daytona's lifetime over the deadlines of an attempt: opening and closing take their time."""
_KEPT_MINUTES = 24 * 60
_START_SECONDS = 300.0


class DaytonaParameters(EnvironmentParameters):
    api_url: str | None = None
    """Of your own Daytona; unset: DAYTONA_API_URL, else https://app.daytona.io/api."""
    target: str | None = None
    """Region; unset: DAYTONA_TARGET, else the account's own."""
    snapshot: str | None = None
    """Open from this snapshot of the account, instead of any image."""
    lifetime_hours: Annotated[float, Field(gt=0, le=24)] = 12.0
    """After this Daytona deletes a sandbox whose attempt has no deadline of its own."""


class Daytona:
    """Satisfies contracts.protocols.EnvironmentProvider."""

    capabilities = Capabilities(
        isolated=True,
        images=True,
        builds=True,
        workdir=True,
        users=True,
        resources=frozenset({"cpus", "memory_mb", "disk_mb", "gpus"}),
        network=frozenset({"none", "allow"}),
        network_phases=True,
        model_address=False,
        open_qps=10,
    )

    def __init__(self, parameters: DaytonaParameters) -> None:
        self._parameters = parameters
        self._clients = DaytonaClients(parameters.api_url, parameters.target)

    async def preflight(self, requirements: Iterable[Requirements]) -> list[str]:
        return await preflight(self._clients, requirements, self._parameters.snapshot)

    @asynccontextmanager
    async def open(
        self, requirements: Requirements, label: SandboxLabel
    ) -> AsyncIterator[Environment]:
        """Raises `environment.start`."""
        try:
            variables = {
                **QUIET_COMMANDS,
                **resolved(requirements.env, os.environ, "requirements.env"),
            }
            network = DaytonaNetwork(requirements.network)
        except (RequestError, ValueError) as error:
            raise AgentCompassError(Code.ENVIRONMENT_START, str(error)) from error
        minutes = self._lifetime_minutes(label)
        async with self._clients.client() as client:
            with tempfile.TemporaryDirectory(prefix="agentcompass-build-") as scratch:
                try:
                    asked = await asyncio.to_thread(
                        wanted,
                        requirements,
                        self._parameters.snapshot,
                        new_name(label),
                        labels(label, minutes * 60),
                        minutes,
                        network.current,
                        Path(scratch),
                        keep=label.keep,
                    )
                except Exception as error:  # the SDK reads the Dockerfile and what it copies
                    raise opening.start_failure(error) from error
                start_seconds = max(_START_SECONDS, requirements.build_timeout_seconds)
                opened = await opening.create(client, asked, start_seconds)
            pinned = "@" in (requirements.image or "") and self._parameters.snapshot is None
            image = requirements.image if pinned else None
            sandbox = DaytonaSandbox(opened, network, variables, requirements.user, image)
            keep = False
            try:
                try:
                    await sandbox.prepare(requirements.workdir)
                except AgentCompassError as error:
                    raise AgentCompassError(Code.ENVIRONMENT_START, str(error)) from error
                keep = label.keep
                yield sandbox
            finally:
                sandbox.commands.closing = True
                if keep:
                    _log.warning(
                        "kept the %s sandbox of %s: daytona ssh %s (or the terminal at "
                        "https://app.daytona.io/dashboard/sandboxes); Daytona deletes it "
                        "within %d h",
                        *(label.purpose, label.attempt, sandbox.id, minutes // 60 + 1),
                    )
                elif not await to_its_end(opening.delete(client, sandbox.id)):
                    _log.warning(
                        "the sandbox %s of %s could not be deleted; Daytona does within %d min, "
                        "or `agentcompass env clean` later",
                        *(sandbox.id, label.attempt, minutes),
                    )

    async def leftovers(self) -> tuple[Leftover, ...]:
        """Sandboxes with our labels: of dead processes of this machine, expired, or kept."""
        async with self._clients.client() as client:
            from daytona import ListSandboxesQuery

            async def ask() -> tuple[Leftover, ...]:
                found = []
                async for sandbox in client.list(ListSandboxesQuery(labels=dict(OURS))):
                    state = str(getattr(sandbox.state, "value", sandbox.state))
                    one = leftover(sandbox.id, sandbox.labels, sandbox.created_at)
                    if one is not None and state not in ("destroyed", "destroying"):
                        found.append(one)
                return tuple(found)

            try:
                return await calls.call(ask, patience_seconds=30)
            except Exception as error:  # whatever the SDK and its transports raise
                if calls.status_of(error) == 401:
                    raise calls.refused_key() from error
                raise AgentCompassError(
                    Code.ENVIRONMENT_START,
                    f"Daytona at {self._clients.api_url} cannot be asked: {calls.one_line(error)}",
                ) from error

    async def remove_leftover(self, leftover: Leftover) -> bool:
        async with self._clients.client() as client:
            return await opening.delete(client, leftover.id)

    def _lifetime_minutes(self, label: SandboxLabel) -> int:
        seconds = label.lifetime_seconds or self._parameters.lifetime_hours * 3600
        minutes = math.ceil(seconds / 60) + _MARGIN_MINUTES
        return max(minutes, _KEPT_MINUTES) if label.keep else minutes


COMPONENT = Component(version="1", create=Daytona, parameters=DaytonaParameters)
