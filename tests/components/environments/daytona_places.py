"""What tests of the Daytona provider share: a stand-in API, and sandboxes in it."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import pytest

from agentcompass.components.contracts.attempt import AttemptKey
from agentcompass.components.contracts.sandbox import SandboxLabel
from agentcompass.components.environments.daytona import Daytona, DaytonaParameters
from tests.standins.daytona_server import KEY, DaytonaServer

_numbers = count(1)

CREATE = "POST /api/sandbox"
EXECUTE = "POST /toolbox/{id}/process/execute"


@contextmanager
def standing_in(folder: Path) -> Iterator[DaytonaServer]:
    """A stand-in that the provider finds by the environment."""
    with DaytonaServer(folder) as server, pytest.MonkeyPatch.context() as patch:
        patch.setenv("DAYTONA_API_URL", server.url)
        patch.setenv("DAYTONA_API_KEY", KEY)
        patch.setenv("DAYTONA_TARGET", "us")
        yield server


def daytona(**parameters: object) -> Daytona:
    return Daytona(DaytonaParameters.model_validate(parameters))


def label(task_id: str = "task", **more: object) -> SandboxLabel:
    key = AttemptKey(task_id=task_id, index=next(_numbers))
    return SandboxLabel("run-of-tests", key, **more)  # type: ignore[arg-type]


async def until(condition: Callable[[], bool], seconds: float = 20) -> None:
    for _ in range(int(seconds / 0.05)):
        if condition():
            return
        await asyncio.sleep(0.05)
    raise AssertionError("it did not come about in time")
