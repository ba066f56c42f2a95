"""A stand-in of Modal's servers for the tests of its provider."""

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agentcompass.components.contracts.attempt import AttemptKey
from agentcompass.components.contracts.requirements import Requirements
from agentcompass.components.contracts.sandbox import Environment, SandboxLabel
from agentcompass.components.environments.modal import Modal, ModalParameters
from tests.standins.modal_box import usable
from tests.standins.modal_sandboxes import StandinSandbox
from tests.standins.modal_server import ModalStandin, modal_standin

needs_sandboxes = pytest.mark.skipif(
    not os.environ.get("CI") and (sys.platform != "linux" or not usable()),
    reason="needs root, bubblewrap and iproute2",
)
IMAGE = Requirements(image="debian:stable-slim")
LABEL = SandboxLabel(
    "20250102_030405", AttemptKey(task_id="django__django-12345", index=1), lifetime_seconds=1000
)


@pytest.fixture
def standin(tmp_path: Path) -> Iterator[ModalStandin]:
    with modal_standin(tmp_path / "modal") as running:
        yield running


def provider(**parameters: Any) -> Modal:
    return Modal(ModalParameters.model_validate(parameters))


def inside(
    scenario: Callable[[Environment], Awaitable[None]],
    required: Requirements = IMAGE,
    label: SandboxLabel = LABEL,
    **parameters: Any,
) -> None:
    async def run() -> None:
        async with provider(**parameters).open(required, label) as env:
            await scenario(env)

    asyncio.run(run())


async def nothing(_: Environment) -> None: ...


def only(standin: ModalStandin) -> StandinSandbox:
    (sandbox,) = standin.sandboxes.values()
    return sandbox


async def until(true: Callable[[], bool], seconds: float = 30) -> None:
    async with asyncio.timeout(seconds):
        while not true():
            await asyncio.sleep(0.02)
