"""The image of a sandbox: from a registry, or built by Modal from a Dockerfile.

Modal keeps what it made by content, so the same image is not made twice.
"""

import asyncio
from typing import TYPE_CHECKING

from agentcompass.components.contracts.errors import AgentCompassError, Code
from agentcompass.components.contracts.requirements import Requirements
from agentcompass.components.contracts.user_path import user_path
from agentcompass.components.environments._modal.errors import (
    Trouble,
    one_line,
    persistently,
    start_failure,
    trouble,
)

if TYPE_CHECKING:
    import modal


NO_IMAGE = (
    "modal: the task names no image; give one: "
    """--env-params '{"setup": {"image": "NAME"}}'"""
)


class Images:
    """One work for all who need the same image at the same time."""

    def __init__(self, registry_secret: str | None) -> None:
        self._registry_secret = registry_secret
        self._making: dict[object, asyncio.Task[modal.Image]] = {}

    async def get(
        self, requirements: Requirements, default: str | None, app: "modal.App"
    ) -> "modal.Image":
        """Raises environment.start."""
        build = requirements.build
        name = requirements.image or default
        # a task belongs to its event loop, and what a Dockerfile copies may change meanwhile
        key = (asyncio.get_running_loop(), app.app_id, build or name)
        making = self._making.get(key)
        if making is None:
            seconds = requirements.build_timeout_seconds
            making = asyncio.create_task(self._make(requirements, name, app, seconds))
            self._making[key] = making
            making.add_done_callback(lambda done: self._forget(key, done))
        return await asyncio.shield(making)

    def _forget(self, key: object, done: "asyncio.Task[modal.Image]") -> None:
        failed = done.cancelled() or done.exception() is not None
        if failed or isinstance(key, tuple) and not isinstance(key[-1], str):
            self._making.pop(key, None)

    async def _make(
        self, requirements: Requirements, name: str | None, app: "modal.App", seconds: float
    ) -> "modal.Image":
        import modal

        image = await asyncio.to_thread(self._described, requirements, name)
        try:
            await persistently(lambda: image.build.aio(app), seconds=seconds, in_all=seconds)
        except TimeoutError as error:
            raise AgentCompassError(
                Code.ENVIRONMENT_START,
                f"modal: the image {_shown(requirements, name)} was not ready after {seconds:g} s "
                "(env-params setup.build_timeout_seconds)",
            ) from error
        except (modal.exception.Error, OSError) as error:
            if trouble(error) is not Trouble.REFUSED:
                raise start_failure(error) from error
            raise AgentCompassError(
                Code.ENVIRONMENT_START,
                f"modal: the image {_shown(requirements, name)} cannot be made: {one_line(error)}",
            ) from error
        return image

    def _described(self, requirements: Requirements, name: str | None) -> "modal.Image":
        import modal

        secret = modal.Secret.from_name(self._registry_secret) if self._registry_secret else None
        if requirements.build is not None:
            context = user_path(requirements.build.context, "env-params.setup.build.context")
            image = modal.Image.from_dockerfile(
                context / requirements.build.dockerfile,
                context_dir=context,
                registry_secret=secret,
            )
        elif name is not None:
            image = modal.Image.from_registry(name, secret=secret)
        else:
            raise AgentCompassError(Code.ENVIRONMENT_START, NO_IMAGE)
        return image.entrypoint([])  # an image's own would run instead of what keeps it open


def _shown(requirements: Requirements, name: str | None) -> str:
    return f"of {requirements.build.context}" if requirements.build else str(name)
