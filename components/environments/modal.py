"""Sandboxes at Modal (modal.com), each attempt in one of its own.

Credentials are the SDK's: `modal token new` (in `~/.modal.toml`), or MODAL_TOKEN_ID and
MODAL_TOKEN_SECRET. A task needs an image, its own or `setup.image`; Modal pulls it from its
registry or builds it from the task's Dockerfile, for linux/amd64.

A sandbox ends by itself somewhat after the last deadline of its attempt, within 24 hours at the
latest, even if this machine dies; `agentcompass env clean` ends it earlier.

Network policies `none` and {allow: …} are Modal's own and may differ between the phases. An
allowed name is reached by TLS at port 443, an allowed address in every way; {deny: …} and other
ports are refused. A model endpoint with a public address stays reachable for programs inside
whatever the policy is; one on this machine or its network cannot be reached.
"""

import logging
import math
import os
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from agentcompass.components.configuration.variables import resolved
from agentcompass.components.contracts.errors import AgentCompassError, Code
from agentcompass.components.contracts.parameters import EnvironmentParameters
from agentcompass.components.contracts.protocols import Component
from agentcompass.components.contracts.requirements import Requirements
from agentcompass.components.contracts.sandbox import (
    Capabilities,
    Environment,
    Leftover,
    SandboxLabel,
)
from agentcompass.components.environments._modal import labels as _labels
from agentcompass.components.environments._modal import leftovers as _leftovers
from agentcompass.components.environments._modal import network as _network
from agentcompass.components.environments._modal import preflight as _preflight
from agentcompass.components.environments._modal.client import SharedClient
from agentcompass.components.environments._modal.errors import (
    persistently,
    start_failure,
    trouble,
    within,
)
from agentcompass.components.environments._modal.images import Images
from agentcompass.components.environments._modal.opening import (
    Creation,
    create,
    guard,
    release,
    to_its_end,
    unmake,
)
from agentcompass.components.environments._modal.sandbox import ModalSandbox
from agentcompass.components.environments._quiet_commands import QUIET_COMMANDS

if TYPE_CHECKING:
    import modal

_log = logging.getLogger(__name__)

_MOST_LIFETIME_SECONDS = 24 * 3600
"""Modal's own limit."""
_LIFETIME_MARGIN_SECONDS = 900
"""For closing, and for clocks that differ."""


class ModalParameters(EnvironmentParameters):
    app_name: str = "agentcompass"
    """The Modal app that the sandboxes belong to; made if missing."""
    region: str | tuple[str, ...] | None = None
    """Where sandboxes may run, such as `us-east`; unset: anywhere."""
    cloud: str | None = None
    """Which cloud they run in, such as `aws`; unset: any."""
    gpu: str = "any"
    """The kind of GPU where `resources.gpus` asks for some, such as `A10G` or `H100`."""
    image: str | None = None
    """For tasks that name no image of their own."""
    registry_secret: str | None = None
    """Name of the Modal secret with the credentials of a private registry."""
    quota_wait_seconds: float = 1800.0
    """How long an opening waits while Modal refuses because of too many sandboxes, or too many
    at once; the attempt's set-up deadline counts as well."""
    extras: Mapping[str, Any] = {}
    """Further arguments of the SDK's `Sandbox.create`, as they are."""


class Modal:
    """Satisfies contracts.protocols.EnvironmentProvider."""

    capabilities = Capabilities(
        isolated=True,
        images=True,
        builds=True,
        workdir=True,
        users=True,
        resources=frozenset({"cpus", "memory_mb", "gpus"}),
        network=frozenset({"none", "allow"}),
        network_phases=True,
        model_address=False,
        open_qps=10,
    )

    def __init__(self, parameters: ModalParameters) -> None:
        self._parameters = parameters
        self._client = SharedClient()
        self._images = Images(parameters.registry_secret)

    async def preflight(self, requirements: Iterable[Requirements]) -> list[str]:
        parameters = self._parameters
        problems = _preflight.problems(list(requirements), parameters.image)
        if (missing := _preflight.not_installed()) is not None:
            return [*problems, missing]
        problems += _preflight.unknown_extras(parameters.extras)
        if (unreachable := await _preflight.unreachable(self._client)) is not None:
            problems.append(unreachable)
        return problems

    @asynccontextmanager
    async def open(
        self, requirements: Requirements, label: SandboxLabel
    ) -> AsyncIterator[Environment]:
        """Raises environment.start, environment.setup or environment.disk_full."""
        if problems := _preflight.problems([requirements], self._parameters.image):
            raise AgentCompassError(Code.ENVIRONMENT_START, "; ".join(problems))
        variables = {
            **QUIET_COMMANDS,
            **resolved(requirements.env, os.environ, "requirements.env"),
        }
        async with self._connected() as client:
            app = await self._app(client)
            image = await self._images.get(requirements, self._parameters.image, app)
            sandbox = await create(
                Creation(
                    client,
                    app,
                    _labels.new_name(label),
                    self._arguments(requirements, label, image),
                ),
                self._parameters.quota_wait_seconds,
            )
            environment = None
            if not label.keep:
                guard(sandbox)
            try:
                environment = ModalSandbox(
                    sandbox, image.object_id, variables, requirements.network
                )
                await environment.prepare(requirements.workdir, requirements.user)
                yield environment
            finally:
                if environment is not None:
                    environment.close()
                await to_its_end(_close(sandbox, label))

    async def leftovers(self) -> tuple[Leftover, ...]:
        """Of this machine and user, in our app."""
        async with self._connected() as client:
            return await _leftovers.find(client, self._parameters.app_name)

    async def remove_leftover(self, leftover: Leftover) -> bool:
        async with self._connected() as client:
            return await _leftovers.remove(client, leftover)

    @asynccontextmanager
    async def _connected(self) -> "AsyncIterator[modal.Client]":
        entered = False
        try:
            async with self._client.use() as client:
                entered = True
                yield client
        except Exception as error:  # of the SDK: only those of connecting are explained here
            if entered or trouble(error) is None:
                raise
            raise start_failure(error) from error

    async def _app(self, client: "modal.Client") -> "modal.App":
        import modal

        name = self._parameters.app_name
        try:
            return await persistently(
                lambda: modal.App.lookup.aio(name, client=client, create_if_missing=True)
            )
        except (modal.exception.Error, OSError) as error:
            raise start_failure(error) from error

    def _arguments(
        self, requirements: Requirements, label: SandboxLabel, image: "modal.Image"
    ) -> dict[str, Any]:
        limits, parameters = requirements.resources, self._parameters
        lifetime = _lifetime(label)
        region = parameters.region
        return {
            "image": image,
            "tags": _labels.tags(label, lifetime),
            "timeout": lifetime,
            "idle_timeout": None,  # a quiet command is no idle sandbox
            "cpu": (limits.cpus, limits.cpus) if limits.cpus else None,
            "memory": (limits.memory_mb, limits.memory_mb) if limits.memory_mb else None,
            "gpu": f"{parameters.gpu}:{limits.gpus}" if limits.gpus else None,
            "region": list(region) if isinstance(region, tuple) else region,
            "cloud": parameters.cloud,
            **_network.for_create(requirements.network),
            **parameters.extras,
        }


def _lifetime(label: SandboxLabel) -> int:
    """Seconds, above the sum of the attempt's deadlines and finite."""
    if label.lifetime_seconds is None:
        return _MOST_LIFETIME_SECONDS
    wanted = math.ceil(label.lifetime_seconds) + _LIFETIME_MARGIN_SECONDS
    if wanted > _MOST_LIFETIME_SECONDS:
        _log.warning(
            "modal: a sandbox lives 24 hours at most, which may end %s early", label.attempt
        )
    return min(wanted, _MOST_LIFETIME_SECONDS)


async def _close(sandbox: "modal.Sandbox", label: SandboxLabel) -> None:
    if label.keep:
        _log.warning(
            "kept the %s sandbox of %s: modal shell %s",
            label.purpose,
            label.attempt,
            sandbox.object_id,
        )
    else:
        await unmake(sandbox)
        release(sandbox)
    try:
        detached = sandbox.detach.aio()  # type: ignore[no-untyped-call]
        await within(5.0, detached)  # its connection to the worker
    except Exception as error:  # a connection that will not close holds nobody up
        _log.debug("modal: %s", error)


COMPONENT = Component(version="1", create=Modal, parameters=ModalParameters)
