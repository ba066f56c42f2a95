"""What the tests of images share: an engine, and images that go away with their test."""

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import pytest

from agentcompass.components.contracts.errors import AgentCompassError
from agentcompass.components.contracts.requirements import Build, Requirements
from agentcompass.components.environments._docker.engine import Engine
from agentcompass.components.environments._docker.images import Images, ObtainedImage
from tests.components.environments.docker_engine import needs_engine
from tests.standins.registry import Registry, serving

LABEL = "agentcompass.test"
T = TypeVar("T")


@dataclass
class Lab:
    engine: Engine
    mark: str
    folder: Path
    notes: list[str] = field(default_factory=list)

    @property
    def labels(self) -> dict[str, str]:
        return {LABEL: self.mark}

    def context(self, dockerfile: str, **files: str) -> Requirements:
        """A folder with a Dockerfile (its image labelled as ours) and files."""
        folder = self.folder / f"context-{secrets.token_hex(3)}"
        folder.mkdir()
        first, _, rest = dockerfile.partition("\n")
        text = f"{first}\nLABEL {LABEL}={self.mark}\n{rest}"
        (folder / "Dockerfile").write_text(text)
        for name, content in files.items():
            (folder / name).write_text(content)
        return Requirements(build=Build(context=str(folder)))

    async def obtain(self, images: Images, asked: str | Requirements) -> ObtainedImage:
        required = Requirements(image=asked) if isinstance(asked, str) else asked
        return await images.obtain(required, self.notes.append)

    async def refusal(self, images: Images, asked: str | Requirements) -> AgentCompassError:
        with pytest.raises(AgentCompassError) as refused:
            await self.obtain(images, asked)
        assert "\n" not in str(refused.value)
        return refused.value

    def containers(self) -> list[dict[str, Any]]:
        filters = {"label": f"{LABEL}={self.mark}"}
        found: list[dict[str, Any]] = self.engine.client().api.containers(all=True, filters=filters)
        return found

    def clean(self) -> None:
        api = self.engine.client().api
        for container in self.containers():
            api.remove_container(container["Id"], force=True)
        for image in api.images(filters={"label": f"{LABEL}={self.mark}"}):
            api.remove_image(image["Id"], force=True)


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    if needs_engine.args[0]:
        pytest.skip(needs_engine.kwargs["reason"])
    lab = Lab(Engine(), secrets.token_hex(6), tmp_path)
    try:
        yield lab
    finally:
        lab.clean()


def within(work: Callable[[], Awaitable[T]], seconds: float = 120.0) -> T:
    async def bounded() -> T:
        async with asyncio.timeout(seconds):
            return await work()

    return asyncio.run(bounded())


@pytest.fixture
def registry(lab: Lab) -> Iterator[Registry]:
    with serving() as registry:
        yield registry


def questions_of_one_pull(lab: Lab, registry: Registry) -> int:
    """How often an engine asks for a manifest differs with its version."""
    registry.add(f"{lab.mark}-lone", {"a": b"lone"}, labels=lab.labels)
    within(lambda: lab.obtain(Images(lab.engine), registry.image(f"{lab.mark}-lone")))
    count = registry.count("manifest")
    registry.requests.clear()
    return count
