"""Images built from Dockerfiles, each content once: `agentcompass/build:<hash of the content>`.

The engine's own builder is used, through its API. The images a Dockerfile starts from are pulled
first, with the patience of `images.py`, and named when they are the problem. RUN has the
engine's default network unless told otherwise.
"""

import asyncio
import errno
import json
import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from agentcompass.components.contracts.errors import AgentCompassError, Code
from agentcompass.components.contracts.requirements import Build, Requirements
from agentcompass.components.environments._docker.build_context import (
    BuildContext,
    build_problem,
    buildkit_problem,
    content_hash,
    context_path,
    images_named,
    packed,
    read_context,
)
from agentcompass.components.environments._docker.build_output import BuildOutput
from agentcompass.components.environments._docker.engine import Engine
from agentcompass.components.environments._docker.errors import (
    explained,
    one_line,
    text_of,
    transient,
)
from agentcompass.components.environments._docker.images_machine import FULL_MB
from agentcompass.components.environments._docker.images_once import Once, alone
from agentcompass.components.environments._docker.images_stream import followed

if TYPE_CHECKING:
    from agentcompass.components.environments._docker.images import Images, ObtainedImage

Note = Callable[[str], None]
REPOSITORY = "agentcompass/build"
BUILD_LABEL = "agentcompass.build"
"""The hash of the content, on every image made here."""
_BASES_LABEL = "agentcompass.build.bases"
_TRIES = 3
_PAUSE_SECONDS = 2.0
_COMMAND_FAILED = re.compile(r"returned a non-zero code: \d+")


class Builds:
    def __init__(
        self, engine: Engine, images: "Images", *, network: str | None, arguments: Mapping[str, str]
    ) -> None:
        """`network`: of RUN, as docker build --network has it; None: the engine's default."""
        self._engine, self._images = engine, images
        self._network, self._arguments = network, dict(arguments)
        self._once: Once[ObtainedImage] = Once()
        self._hashes: dict[tuple[str, str | None], str] = {}

    async def obtain(self, requirements: Requirements, note: Note) -> "ObtainedImage":
        """Raises environment.start, environment.setup_timeout, or environment.disk_full."""
        build = requirements.build
        assert build is not None
        key = json.dumps([build.context, build.dockerfile, requirements.platform])
        work = partial(
            self._obtained, build, requirements.platform, requirements.build_timeout_seconds
        )
        image = await self._once.get(key, work, note)
        self._images.space.uses(image.id)
        return image

    async def cached(self, build: Build, platform: str | None) -> "ObtainedImage | None":
        """The image of this content, if it was built before. Raises as `obtain`."""
        _, tag = await self._read(build, platform)
        return await self._images.present(tag)

    def bases(self, context_text: str) -> dict[str, str | None]:
        """Images the Dockerfile starts from, and the platform each is asked for."""
        return images_named(context_text, self._arguments)

    async def _obtained(
        self, build: Build, platform: str | None, timeout_seconds: float, note: Note
    ) -> "ObtainedImage":
        context, tag = await self._read(build, platform)
        if (image := await self._current(context, tag)) is not None:
            return image
        here = await self._images.machine()
        async with alone(f"{here.engine_id} {tag}"):
            if (image := await self._current(context, tag)) is not None:
                return image  # another process built it meanwhile
            output = BuildOutput(context.root.name, note)
            limit = asyncio.timeout(timeout_seconds)
            try:
                async with limit:
                    await self._built(context, tag, platform, output)
            except TimeoutError:
                if not limit.expired():
                    raise
                raise AgentCompassError(
                    Code.ENVIRONMENT_SETUP_TIMEOUT,
                    f"building {context.root} took longer than {timeout_seconds:g} s "
                    f"(setup.build_timeout_seconds){output.tail()}",
                ) from None
            image = await self._images.present(tag)
        if image is None:
            raise AgentCompassError(
                Code.ENVIRONMENT_START, f"image {tag} was built, and is gone again"
            )
        self._images.space.took(image.id, tag)
        return image

    async def _read(self, build: Build, platform: str | None) -> tuple[BuildContext, str]:
        """The context and the tag of its content; contents are read again only after a change."""

        def read() -> tuple[BuildContext, str]:
            if problem := build_problem(build):
                raise AgentCompassError(Code.ENVIRONMENT_START, problem)
            context = read_context(build)
            key = (context.signature, platform)
            if key not in self._hashes:
                self._hashes[key] = content_hash(context, platform, self._arguments)
            return context, f"{REPOSITORY}:{self._hashes[key]}"

        try:
            return await asyncio.to_thread(read)
        except OSError as error:
            raise AgentCompassError(
                Code.ENVIRONMENT_START,
                f"the build context {context_path(build)} cannot be read: {error}",
            ) from error

    async def _current(self, context: BuildContext, tag: str) -> "ObtainedImage | None":
        """Built before, and not from a base that is another image by now."""
        image = await self._images.present(tag)
        if image is None:
            return None
        try:
            bases = json.loads((image.config.get("Labels") or {}).get(_BASES_LABEL, "{}"))
        except ValueError:
            return None
        for name, built_from in bases.items():
            base = await self._images.present(name)
            if base is not None and base.id != built_from:
                return None
        return image

    async def _built(
        self, context: BuildContext, tag: str, platform: str | None, output: BuildOutput
    ) -> None:
        doing = f"building {context.root}"
        if problem := buildkit_problem(context.text):
            raise AgentCompassError(Code.ENVIRONMENT_START, f"{doing}: {problem}")
        bases = {}
        for name, wanted in self.bases(context.text).items():
            try:
                bases[name] = (await self._images.named(name, wanted or platform, output.note)).id
            except AgentCompassError as error:
                text = f"{doing}: FROM {name} is not obtainable: {error}"
                raise AgentCompassError(error.code, text) from error
        labels = {BUILD_LABEL: tag.rpartition(":")[2], _BASES_LABEL: json.dumps(bases)}
        for attempt in range(1, _TRIES + 1):
            await self._images.space.require(doing)
            try:
                await self._run(context, tag, platform, labels, output)
                return
            except Exception as error:  # any of the SDK's and its transport's; judged here
                told = await self._failure(doing, error, output)
                again = transient(error) and not _COMMAND_FAILED.search(str(error))
                if not again or attempt == _TRIES:
                    raise told from error
            output.note(f"{told}; trying again")
            await asyncio.sleep(_PAUSE_SECONDS * attempt)

    async def _run(
        self,
        context: BuildContext,
        tag: str,
        platform: str | None,
        labels: Mapping[str, str],
        output: BuildOutput,
    ) -> None:
        try:
            archive = await asyncio.to_thread(packed, context)
        except OSError as error:
            full = error.errno in (errno.ENOSPC, errno.EDQUOT)
            raise AgentCompassError(
                Code.ENVIRONMENT_DISK_FULL if full else Code.ENVIRONMENT_START,
                f"packing the build context {context.root} failed: {error}",
            ) from error
        with archive:
            await followed(
                self._engine,
                lambda api: api.build(
                    fileobj=archive,
                    custom_context=True,
                    dockerfile=context.dockerfile,
                    tag=tag,
                    rm=True,
                    forcerm=True,
                    labels=dict(labels),
                    platform=platform,
                    buildargs=dict(self._arguments),
                    network_mode=self._network,
                    decode=True,
                ),
                output.see,
                silent_seconds=float("inf"),  # a RUN may be; the deadline ends it
                tick=output.tell,
            )

    async def _failure(
        self, doing: str, error: BaseException, output: BuildOutput
    ) -> AgentCompassError:
        if not _COMMAND_FAILED.search(str(error)):  # then the text is the engine's or a registry's
            told = explained(error, doing)
            return AgentCompassError(told.code, f"{told}{output.tail()}")
        code = Code.ENVIRONMENT_START
        if "no space left on device" in output.tail().lower():
            free = await asyncio.to_thread((await self._images.machine()).free_mb)
            if free is not None and free < FULL_MB:  # not just a full file system of its own
                code = Code.ENVIRONMENT_DISK_FULL
        return AgentCompassError(code, f"{doing}: {one_line(text_of(error))}{output.tail()}")
