"""C08: Ctrl-C ends the sandboxes of a run wherever they are, and only those."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from grpclib import Status

from tests.components.environments.modal_sandboxes import inside, needs_sandboxes, nothing, standin
from tests.standins.modal_server import ModalStandin

__all__ = ["standin"]
pytestmark = needs_sandboxes

ROOT = Path(__file__).parents[2]
CLIENT = """
import asyncio, sys
from tests.components.environments.modal_sandboxes import IMAGE, LABEL, provider

async def one(ours):
    async with ours.open(IMAGE, LABEL) as env:
        await env.exec("setsid sleep 1000 & sleep 1000")

async def main():
    ours = provider()
    await asyncio.gather(*(one(ours) for _ in range(3)))

try:
    asyncio.run(main())
except KeyboardInterrupt:
    sys.exit(130)
"""


@pytest.mark.parametrize("where", ["create", "agent"])
@pytest.mark.parametrize("presses", [1, 2])
def test_ctrl_c_leaves_no_sandbox(standin: ModalStandin, where: str, presses: int) -> None:
    with_bystander(standin)
    bystander = next(iter(standin.sandboxes.values()))
    if where == "create":
        standin.faults.hang("SandboxCreateV2", times=3, after=True)
    client = subprocess.Popen(
        [sys.executable, "-c", CLIENT], cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}
    )
    try:
        reached(lambda: len(standin.living()) == 4)
        if where == "agent":
            reached(lambda: standin.calls.count("TaskExecWait") >= 6)
        client.send_signal(signal.SIGINT)
        if presses == 2:
            time.sleep(0.1)
            client.send_signal(signal.SIGINT)
        reached(lambda: standin.living() == [bystander])
        if presses == 1:
            assert client.wait(30) == 130
    finally:
        client.kill()
        client.wait()


def with_bystander(standin: ModalStandin) -> None:
    """Another's: it has not our tags, and stays."""
    standin.faults.fail("SandboxTerminateV2", Status.PERMISSION_DENIED, times=1_000_000)
    inside(nothing)
    standin.faults.clear()
    standin.calls.clear()


def reached(true: Callable[[], bool], seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, true
        time.sleep(0.05)
