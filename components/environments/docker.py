"""Containers of a Docker engine, each attempt in a new one that is gone when it ends.

The engine is that of DOCKER_HOST, else of the docker command's current context. Images are pulled
when they are missing, or built from a Dockerfile. An image needs a POSIX shell, `cat` and, for
files to be read and written, coreutils or busybox.

Commands run in the task's working directory, else in the image's, else in /workspace. CPU, memory
(without swap beyond it), processes (4096 unless set) and, where the engine's storage can, disk are
limited; network policies hold phase by phase.

When AgentCompass dies, however it dies, its containers end and are removed within a second: each
one's first process waits for our end of a connection. What an engine crash leaves is found by its
labels (`agentcompass env clean`).
"""

import logging
import math
import os
import posixpath
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Annotated, Any, Literal

from pydantic import Field

from agentcompass.components.configuration.variables import resolved
from agentcompass.components.contracts.errors import RequestError
from agentcompass.components.contracts.frozen import Frozen
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
from agentcompass.components.environments._docker import owner as _owner
from agentcompass.components.environments._docker.command import ROOT
from agentcompass.components.environments._docker.container import (
    FirstWords,
    Plan,
    guarded,
    make,
    remove,
)
from agentcompass.components.environments._docker.engine import Engine
from agentcompass.components.environments._docker.errors import explained
from agentcompass.components.environments._docker.files import Place
from agentcompass.components.environments._docker.images import Images, ObtainedImage
from agentcompass.components.environments._docker.network import SandboxNetwork, network_problems
from agentcompass.components.environments._docker.preflight import problems
from agentcompass.components.environments._docker.sandbox import DockerSandbox
from agentcompass.components.environments._docker.scripts import GUARD
from agentcompass.components.environments._docker.trials import trials
from agentcompass.components.environments._quiet_commands import QUIET_COMMANDS

_log = logging.getLogger(__name__)

_WORKSPACE = "/workspace"
_PIDS = 4096


class Mount(Frozen):
    source: str
    """Folder or file of the engine's machine (absolute), or the name of a volume."""
    target: Annotated[str, Field(pattern="^/.")]
    """Absolute path in the sandbox."""
    writable: bool = False
    """What an agent writes there outlives its attempt, and others see it."""


class DockerParameters(EnvironmentParameters):
    host: str | None = None
    """Address of the engine (`unix://…`, `tcp://…`, `ssh://…`); unset: DOCKER_HOST, else the
    docker command's current context."""
    pull: Literal["missing", "always", "never"] = "missing"
    """When images are pulled; `always`: once per run."""
    min_free_mb: Annotated[int, Field(ge=1)] | None = None
    """With less free where the engine stores images, those this run pulled or built and no
    sandbox uses are removed before more are, the least recently used first. Unset: they stay."""
    mounts: tuple[Mount, ...] = ()
    """Folders of the engine's machine that sandboxes see, read-only unless `writable`."""
    cap_add: tuple[str, ...] = ()
    """Linux capabilities beside Docker's usual ones, such as `SYS_PTRACE`. Some open the host."""
    devices: tuple[str, ...] = ()
    """Devices of the engine's machine, such as `/dev/kvm`. They open a part of the host."""
    shm_size_mb: Annotated[int, Field(ge=1)] | None = None
    """Size of /dev/shm; unset: the engine's own (64)."""
    build_network: str | None = None
    """Network of the commands in a Dockerfile, such as `host`; unset: the engine's own."""
    build_arguments: Mapping[str, str] = {}
    """Values for ARG in Dockerfiles."""
    relay_image: str | None = None
    """Image with python3 that lends a hand for network lists and the way to the model; unset: one
    is made from this machine's Python."""


class Docker:
    """Satisfies contracts.protocols.EnvironmentProvider."""

    capabilities = Capabilities(
        isolated=True,
        images=True,
        builds=True,
        workdir=True,
        users=True,
        resources=frozenset({"cpus", "memory_mb", "disk_mb", "gpus", "pids"}),
        network=frozenset({"none", "allow", "deny"}),
        network_phases=True,
        model_address=True,
    )

    def __init__(self, parameters: DockerParameters) -> None:
        self._parameters = parameters
        self._engine = Engine(parameters.host)
        self._images = Images(
            self._engine,
            pull=parameters.pull,
            build_network=parameters.build_network,
            build_arguments=parameters.build_arguments,
            min_free_mb=parameters.min_free_mb,
        )

    async def preflight(self, requirements: Iterable[Requirements]) -> list[str]:
        wanted = list(requirements)
        bad_variables = set()
        for required in wanted:
            try:
                resolved(required.env, os.environ, "requirements.env")
            except RequestError as error:
                bad_variables.add(str(error))
        found = await problems(self._engine, self._images, wanted)
        if not found:  # else the engine itself may be what is wrong
            chosen = self._parameters.relay_image
            found = await network_problems(self._engine, wanted, relay_image=chosen)
        if not found and not bad_variables:
            found = await trials(self, self._engine, wanted)
        return [*found, *sorted(bad_variables)]

    @asynccontextmanager
    async def open(
        self, requirements: Requirements, label: SandboxLabel
    ) -> AsyncIterator[Environment]:
        """Raises `environment.start`, `environment.setup_timeout` or `environment.disk_full`."""
        image = await self._images.obtain(requirements, _log.info)
        workdir = requirements.workdir or _workdir(image)
        user = requirements.user or str(image.config.get("User") or "")
        variables = resolved(requirements.env, os.environ, "requirements.env")
        plan = self._plan(requirements, label, image, workdir, user)
        doing = f"opening a container of {image.name}"
        try:
            made = await make(self._engine, plan)
        except Exception as error:  # any of the SDK's and its transport's
            raise explained(error, doing) from error
        disk_limited = requirements.resources.disk_mb is not None
        place = Place(self._engine, made.id, user, disk_limited)
        network = SandboxNetwork(
            self._engine,
            made.id,
            requirements.network,
            plan.settings["labels"],
            relay_image=self._parameters.relay_image,
        )
        heard = FirstWords()
        guard = await guarded(self._engine, made, heard)
        sandbox = DockerSandbox(
            self._engine,
            place,
            guard,
            network,
            image=image.digest,
            workdir=workdir,
            variables={**QUIET_COMMANDS, **variables},
            memory_limited=requirements.resources.memory_mb is not None,
        )
        kept = False
        try:
            await heard.ready(guard, doing)
            await network.enter("baseline")
            kept = label.keep
            yield sandbox
        finally:
            await to_its_end(sandbox.close(kept, lambda why: _complain(plan.name, why)))
            if kept:
                _log.warning(
                    "kept the %s sandbox of %s: docker exec -it -w %s %s sh",
                    *(label.purpose, label.attempt, workdir, plan.name),
                )

    async def image_names(self, requirements: Requirements) -> frozenset[str]:
        return await self._images.names_now(requirements)

    async def leftovers(self) -> tuple[Leftover, ...]:
        filters = {"label": _owner.OWNER}
        try:
            listed = await self._engine.insist(
                lambda client: client.api.containers(all=True, filters=filters)
            )
        except Exception as error:  # any of the SDK's and its transport's
            raise explained(error, "listing containers") from error
        found = (_owner.leftover(container) for container in listed)
        return tuple(leftover for leftover in found if leftover is not None)

    async def remove_leftover(self, leftover: Leftover) -> bool:
        try:
            await self._engine.insist(remove, leftover.id)
        except Exception as error:  # any of the SDK's and its transport's
            _log.warning("%s", explained(error, f"removing container {leftover.id[:12]}"))
            return False
        return True

    def _plan(
        self,
        requirements: Requirements,
        label: SandboxLabel,
        image: ObtainedImage,
        workdir: str,
        user: str,
    ) -> Plan:
        guard = [workdir, "" if user in ROOT else user, "keep" if label.keep else ""]
        settings: dict[str, Any] = {
            "entrypoint": ["/bin/sh", "-c", GUARD, "agentcompass", *guard],
            "command": [],  # the image's own would follow
            "user": "0",
            "working_dir": "/",
            "stdin_open": True,
            "healthcheck": {"test": ["NONE"]},
            "labels": _owner.labels(label),
            "platform": requirements.platform,
        }
        host_settings = {
            "auto_remove": not label.keep,
            **self._limits(requirements),
            **self._extras(),
            **SandboxNetwork.initial(requirements.network.baseline),
        }
        return Plan(_owner.new_name(label), image.id, settings, host_settings)

    def _limits(self, requirements: Requirements) -> dict[str, Any]:
        wanted = requirements.resources
        limits: dict[str, Any] = {"pids_limit": wanted.pids or _PIDS}
        if wanted.cpus is not None:
            limits["nano_cpus"] = math.ceil(wanted.cpus * 1e9)
        if wanted.memory_mb is not None:
            limits["mem_limit"] = limits["memswap_limit"] = f"{wanted.memory_mb}m"
        if wanted.disk_mb is not None:
            limits["storage_opt"] = {"size": f"{wanted.disk_mb}M"}
        if wanted.gpus is not None:
            from docker.types import DeviceRequest

            request = DeviceRequest(count=wanted.gpus, capabilities=[["gpu"]])
            limits["device_requests"] = [request]
        return limits

    def _extras(self) -> dict[str, Any]:
        given = self._parameters
        extras: dict[str, Any] = {}
        if given.mounts:
            from docker.types import Mount as SdkMount

            extras["mounts"] = [
                SdkMount(
                    mount.target,
                    mount.source,
                    type="bind" if mount.source.startswith("/") else "volume",
                    read_only=not mount.writable,
                )
                for mount in given.mounts
            ]
        if given.cap_add:
            extras["cap_add"] = list(given.cap_add)
        if given.devices:
            extras["devices"] = list(given.devices)
        if given.shm_size_mb is not None:
            extras["shm_size"] = f"{given.shm_size_mb}m"
        return extras


def _workdir(image: ObtainedImage) -> str:
    own = posixpath.normpath(str(image.config.get("WorkingDir") or "/"))
    return _WORKSPACE if own in ("/", "//") else own


def _complain(name: str, why: str) -> None:
    _log.warning("container %s may not be removed (it ends with this process): %s", name, why)


COMPONENT = Component(version="1", create=Docker, parameters=DockerParameters)
