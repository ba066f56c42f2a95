"""Which image each task's sandbox would be made from now: names move between runs."""

import asyncio
import logging
from collections.abc import Mapping, Sequence

from agentcompass.components.contracts.errors import AgentCompassError
from agentcompass.components.contracts.protocols import KnowsImages
from agentcompass.components.contracts.requirements import Requirements
from agentcompass.components.contracts.task import Sample
from agentcompass.components.execution.parts import Parts

log = logging.getLogger(__name__)

AT_ONCE = 16
"""Questions to the provider."""


def images_now(parts: Parts, samples: Sequence[Sample]) -> Mapping[str, frozenset[str]]:
    """Task id → all names of its image, empty where they are not known; nothing if the provider
    knows none. Blocking; not for a thread with an event loop."""
    if not isinstance(parts.environments, KnowsImages):
        return {}
    required = {sample.task.id: _of_image(parts.requirements(sample.task)) for sample in samples}
    names = asyncio.run(_asked(parts.environments, list(required.values())))
    return {task_id: names[_key(wanted)] for task_id, wanted in required.items()}


def is_another(image: str | None, names: frozenset[str] | None) -> bool:
    """Whether what was made in this image would be made in another one now. One that is not known
    is never taken for another."""
    return bool(names) and image is not None and image not in (names or ())


async def _asked(
    provider: KnowsImages, required: Sequence[Requirements]
) -> Mapping[str, frozenset[str]]:
    """Each different image once."""
    turn = asyncio.Semaphore(AT_ONCE)

    async def ask(wanted: Requirements) -> frozenset[str]:
        async with turn:
            try:
                return await provider.image_names(wanted)
            except AgentCompassError as error:
                log.warning("not compared with the earlier run's images: %s", error)
                return frozenset()

    different = {_key(wanted): wanted for wanted in required}
    found = await asyncio.gather(*map(ask, different.values()))
    return dict(zip(different, found, strict=True))


def _of_image(required: Requirements) -> Requirements:
    return Requirements(image=required.image, build=required.build, platform=required.platform)


def _key(required: Requirements) -> str:
    return required.model_dump_json()
