"""Today's images are asked for once each, and one that is not known is never taken for another."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from agentcompass.components.contracts.errors import AgentCompassError, Code
from agentcompass.components.contracts.requirements import Requirements
from agentcompass.components.contracts.task import Sample
from agentcompass.components.execution.images_now import images_now
from tests.standins.parts import Boxes, parts, sample, says_yes


class Pictures(Boxes):
    """A provider that knows images."""

    def __init__(self, names: Callable[[str | None], frozenset[str]]) -> None:
        super().__init__()
        self._names = names
        self.asked: list[str | None] = []

    async def image_names(self, requirements: Requirements) -> frozenset[str]:
        self.asked.append(requirements.image)
        return self._names(requirements.image)


def task(task_id: str, image: str, **more: str) -> Sample:
    return sample(task_id, requirements=Requirements(image=image, **more))  # type: ignore[arg-type]


def test_each_image_is_asked_for_once_however_many_tasks_use_it() -> None:
    provider = Pictures(lambda image: frozenset({f"{image}@sha256:1"}))
    tasks = [task("t1", "a", workdir="/x"), task("t2", "b"), task("t3", "a", workdir="/y")]
    found = images_now(replace(parts(says_yes), environments=provider), tasks)
    assert found == {"t1": {"a@sha256:1"}, "t2": {"b@sha256:1"}, "t3": {"a@sha256:1"}}
    assert sorted(map(str, provider.asked)) == ["a", "b"]


def test_a_provider_that_knows_none_is_not_asked() -> None:
    assert images_now(parts(says_yes), [task("t1", "a")]) == {}


def test_one_that_cannot_be_asked_says_so_and_nothing_is_known(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def broken(image: str | None) -> frozenset[str]:
        raise AgentCompassError(Code.ENVIRONMENT_START, "the engine is gone")

    provider = Pictures(broken)
    found = images_now(replace(parts(says_yes), environments=provider), [task("t1", "a")])
    assert found == {"t1": frozenset()}
    assert "the engine is gone" in caplog.text
