"""Room for images: refuse before the engine's disk is full, and give back what this run took.

A benchmark with an image per task pulls more than a disk holds. With `min_free_mb`, images that
this run pulled or built and that no container needs are removed again, the least recently used
first, before more is pulled. Others are never touched.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from agentcompass.components.contracts.errors import AgentCompassError, Code
from agentcompass.components.environments._docker.engine import Engine
from agentcompass.components.environments._docker.images_machine import FULL_MB, Machine
from agentcompass.components.environments._docker.images_once import Once

_JUST_USED_SECONDS = 120.0
"""Whoever was given an image so lately may be about to make a container of it."""

_log = logging.getLogger(__name__)


@dataclass
class _Own:
    name: str
    used_at: float


class Space:
    def __init__(
        self, engine: Engine, machine: Callable[[], Awaitable[Machine]], min_free_mb: int | None
    ) -> None:
        self._engine, self._machine = engine, machine
        self._min_free_mb = min_free_mb
        self._own: dict[str, _Own] = {}
        self._making: Once[int | None] = Once()

    def took(self, image_id: str, name: str) -> None:
        """This run brought the image here."""
        self._own[image_id] = _Own(name, time.monotonic())

    def uses(self, image_id: str) -> None:
        if own := self._own.get(image_id):
            own.used_at = time.monotonic()

    async def require(self, doing: str) -> None:
        """Raises environment.disk_full while the engine can still clean up after itself."""
        here = await self._machine()
        free = await asyncio.to_thread(here.free_mb)
        wanted = self._min_free_mb
        if wanted is not None and free is not None and free < wanted:
            free = await self._making.get(
                "space", lambda note: self._given_back(here, wanted), lambda line: None
            )
        if free is not None and free < FULL_MB:
            raise AgentCompassError(
                Code.ENVIRONMENT_DISK_FULL,
                f"{doing}: only {free} MB are free in {here.data_root}, where the Docker engine "
                "stores images; free some (docker system df shows what takes it), then go on "
                "with --reuse",
            )

    async def _given_back(self, here: Machine, wanted: int) -> int | None:
        """Free MB after removing what may be removed, until `wanted` are free."""
        latest = time.monotonic() - _JUST_USED_SECONDS
        for image_id, own in sorted(self._own.items(), key=lambda item: item[1].used_at):
            free = await asyncio.to_thread(here.free_mb)
            if free is None or free >= wanted:
                return free
            if own.used_at <= latest and await self._removed(own.name):
                self._own.pop(image_id, None)
                _log.info("removed image %s for want of space", own.name)
        return await asyncio.to_thread(here.free_mb)

    async def _removed(self, name: str) -> bool:
        try:
            await self._engine.call(lambda client: client.api.remove_image(name))
        except Exception as error:  # in use by a container, gone, or the engine has other worries
            _log.debug("image %s stays: %s", name, error)
            return False
        return True
