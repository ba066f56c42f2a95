"""From what a task asks for (a name, a digest, a Dockerfile) to an image the engine has.

One pull at a time per image, in this process and on this machine; who waits shares the outcome.
A registry that is busy, failing or out of reach is asked again with growing pauses; one that says
no is not. Credentials are those of the docker command (`~/.docker/config.json`).
"""

import asyncio
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

from agentcompass.components.contracts.errors import AgentCompassError, Code
from agentcompass.components.contracts.requirements import Requirements
from agentcompass.components.environments._docker.build import Builds
from agentcompass.components.environments._docker.engine import Engine
from agentcompass.components.environments._docker.errors import (
    explained,
    retry_after_seconds,
    transient,
)
from agentcompass.components.environments._docker.images_machine import (
    Machine,
    machine,
    matches,
    platform_problem,
)
from agentcompass.components.environments._docker.images_names import digest_of, pull_name
from agentcompass.components.environments._docker.images_once import Once, alone
from agentcompass.components.environments._docker.images_progress import PullProgress
from agentcompass.components.environments._docker.images_space import Space
from agentcompass.components.environments._docker.images_stream import followed

PullPolicy = Literal["missing", "always", "never"]
Note = Callable[[str], None]

PATIENCE_SECONDS = 300.0
"""How long one image is tried for before the attempt fails (and is retried as a whole)."""
SILENT_SECONDS = 300.0
"""A pull without any sign of life for so long is started anew. Unpacking a large layer is quiet."""
_FIRST_PAUSE_SECONDS = 1.0
_LONGEST_PAUSE_SECONDS = 60.0


@dataclass(frozen=True)
class ObtainedImage:
    id: str
    """Create containers from this: the name may come to mean another image."""
    name: str
    """As asked for; of a build, its tag."""
    digest: str
    """`name@sha256:…` as the registry knows it, else the image's id."""
    platform: str
    """`os/architecture`."""
    names: frozenset[str] = frozenset()
    """All that `digest` may be: the image's id, and what registries call it."""
    config: Mapping[str, Any] = field(default_factory=dict)
    """Of the image: Env, User, WorkingDir, Entrypoint, Cmd, Labels, …"""


class Images:
    """Made once per provider; usable from several event loops."""

    def __init__(
        self,
        engine: Engine,
        *,
        pull: PullPolicy = "missing",
        build_network: str | None = None,
        build_arguments: Mapping[str, str] | None = None,
        min_free_mb: int | None = None,
        patience_seconds: float = PATIENCE_SECONDS,
        silent_seconds: float = SILENT_SECONDS,
    ) -> None:
        """`min_free_mb`: below it, images this run brought here and no container needs go."""
        self.policy = pull
        self._engine = engine
        self._patience_seconds = patience_seconds
        self._silent_seconds = silent_seconds
        self._machine: Machine | None = None
        self.space = Space(engine, self.machine, min_free_mb)
        self._pulls: Once[ObtainedImage] = Once()
        self._fresh: set[str] = set()
        self.builds = Builds(engine, self, network=build_network, arguments=build_arguments or {})

    async def obtain(self, requirements: Requirements, note: Note) -> ObtainedImage:
        """`note` is told of progress now and then.

        Raises AgentCompassError: environment.start, environment.setup_timeout (a build), or
        environment.disk_full. Cancelled: the pull or build ends with the last who waits for it.
        """
        if requirements.build is not None:
            return await self.builds.obtain(requirements, note)
        if not requirements.image:
            raise AgentCompassError(
                Code.ENVIRONMENT_START,
                "the task names no image; give one as setup.image in --env-params",
            )
        return await self.named(requirements.image, requirements.platform, note)

    async def named(self, name: str, platform: str | None, note: Note) -> ObtainedImage:
        here = await self.machine()
        image = await self.present(name)
        wanted = f"{name} {platform or ''}"
        good = image is not None and _is_of(image, platform)
        if self.policy == "never":
            if image is None:
                raise AgentCompassError(
                    Code.ENVIRONMENT_START,
                    f"image {name} is not on the Docker engine, and env-params.pull is never; "
                    f"docker pull {name} first",
                )
        elif not good or (self.policy == "always" and wanted not in self._fresh):
            pull = partial(self._pulled, here, name, platform, wanted)
            image = await self._pulls.get(wanted, pull, note)
        assert image is not None
        if problem := platform_problem((image.platform,), platform, here):
            raise AgentCompassError(Code.ENVIRONMENT_START, f"image {name}: {problem}")
        self.space.uses(image.id)
        return image

    async def names_now(self, requirements: Requirements) -> frozenset[str]:
        """Of the image that `obtain` would give without pulling or building; else empty."""
        image = None
        if requirements.build is not None:
            image = await self.builds.cached(requirements.build, requirements.platform)
        elif requirements.image:
            image = await self.present(requirements.image)
        return image.names if image is not None else frozenset()

    async def present(self, name: str) -> ObtainedImage | None:
        """What the engine has under this name. Raises environment.start if it cannot be asked."""
        from docker.errors import ImageNotFound, NotFound

        try:
            found = await self._engine.insist(lambda client: client.api.inspect_image(name))
        except (ImageNotFound, NotFound):
            return None
        except Exception as error:  # any of the SDK's and its transport's
            raise explained(error, f"looking for image {name}") from error
        return ObtainedImage(
            id=found["Id"],
            name=name,
            digest=digest_of(name, found.get("RepoDigests") or (), found["Id"]),
            names=frozenset((found["Id"], *(found.get("RepoDigests") or ()))),
            platform=f"{found.get('Os') or 'linux'}/{found.get('Architecture') or ''}",
            config=found.get("Config") or {},
        )

    async def machine(self) -> Machine:
        """Raises environment.start if the engine cannot be asked."""
        if self._machine is None:
            try:
                self._machine = await machine(self._engine)
            except Exception as error:  # any of the SDK's and its transport's
                raise explained(error, "asking the Docker engine") from error
        return self._machine

    async def _pulled(
        self, here: Machine, name: str, platform: str | None, wanted: str, note: Note
    ) -> ObtainedImage:
        async with alone(f"{here.engine_id} {wanted}"):
            image = await self.present(name)  # another process may just have pulled it
            if image is None or not _is_of(image, platform) or self.policy == "always":
                before = image.id if image else ""
                await self._pull(name, platform, note)
                image = await self.present(name)
                if image is not None and image.id != before:
                    self.space.took(image.id, name)
        if image is None:
            raise AgentCompassError(
                Code.ENVIRONMENT_START, f"image {name} was pulled, and is gone again"
            )
        self._fresh.add(wanted)
        return image

    async def _pull(self, name: str, platform: str | None, note: Note) -> None:
        doing = f"pulling image {name}"
        source = pull_name(name)
        if source is None:
            raise AgentCompassError(
                Code.ENVIRONMENT_START,
                f"{doing}: the engine has no image of this id, and an id cannot be pulled; give a "
                "name, or name@sha256:…",
            )
        end = time.monotonic() + self._patience_seconds
        pause = _FIRST_PAUSE_SECONDS
        while True:
            await self.space.require(doing)
            progress = PullProgress(name, note)
            try:
                await followed(
                    self._engine,
                    lambda api: api.pull(source, stream=True, decode=True, platform=platform),
                    progress.see,
                    silent_seconds=self._silent_seconds,
                    tick=progress.tell,
                )
                return
            except Exception as error:  # any of the SDK's and its transport's; judged here
                asked = retry_after_seconds(error) or 0.0
                wait = max(asked, pause * random.uniform(0.5, 1.0))
                told = explained(error, doing)
                if not transient(error) or time.monotonic() + wait > end:
                    raise told from error
            note(f"{told}; trying again in {wait:.0f} s")
            await asyncio.sleep(wait)
            pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)


def _is_of(image: ObtainedImage, platform: str | None) -> bool:
    return platform is None or matches(image.platform, platform)
