"""The same instance in containers and in remote sandboxes: prepared, worked on, judged."""

from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest

from agentcompass.components.contracts.attempt import AttemptKey
from agentcompass.components.contracts.protocols import EnvironmentProvider
from agentcompass.components.contracts.requirements import Requirements
from agentcompass.components.contracts.sandbox import Environment, SandboxLabel
from agentcompass.components.environments.docker import Docker, DockerParameters
from tests.components.benchmarks.swebench_shapes import FIX, Shapes, shown
from tests.components.environments import modal_sandboxes
from tests.components.environments.daytona_places import daytona, standing_in
from tests.components.environments.docker_engine import IMAGE, needs_engine
from tests.standins.daytona_box import needs_sandboxes
from tests.standins.modal_server import modal_standin

pytestmark = pytest.mark.timeout(240)


@pytest.fixture
def shapes(tmp_path: Path) -> Shapes:
    return Shapes(tmp_path / "shapes")


def check(shapes: Shapes, provider: EnvironmentProvider, image: str) -> None:
    def opened() -> AbstractAsyncContextManager[Environment]:
        label = SandboxLabel(
            run_id="swebench-places",
            attempt=AttemptKey(task_id=shapes.sample.task.id, index=1),
            lifetime_seconds=1000,
        )
        return provider.open(Requirements(image=image, workdir="/testbed"), label)

    right = shapes.worked(FIX + "rm -rf .git", opened)
    assert right.verdict.correct is True, shown(right)
    wrong = shapes.worked("echo >>README.md; git add -A; git commit -qm x", opened)
    assert wrong.verdict.correct is False
    assert [note.code for note in wrong.verdict.notes] == []


@needs_engine
def test_in_a_docker_container(shapes: Shapes) -> None:
    check(shapes, Docker(DockerParameters()), IMAGE)


@pytest.fixture
def modal(tmp_path: Path) -> Iterator[EnvironmentProvider]:
    with modal_standin(tmp_path / "modal"):
        yield modal_sandboxes.provider()


@modal_sandboxes.needs_sandboxes
def test_in_a_modal_sandbox(shapes: Shapes, modal: EnvironmentProvider) -> None:
    check(shapes, modal, "debian:stable-slim")


@needs_sandboxes
def test_in_a_daytona_sandbox(shapes: Shapes, tmp_path: Path) -> None:
    with standing_in(tmp_path / "daytona"):
        check(shapes, daytona(), "debian:12.9")
