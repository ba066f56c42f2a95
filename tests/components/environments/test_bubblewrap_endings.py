"""How sandboxes behind bubblewrap end, and what must not outlive them."""

import asyncio
import os
import shutil
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from agentcompass.components.contracts.attempt import AttemptKey
from agentcompass.components.contracts.errors import AgentCompassError, Code
from agentcompass.components.contracts.requirements import Requirements
from agentcompass.components.contracts.sandbox import Environment, SandboxLabel
from tests.components.environments.processes import ESCAPED, ESCAPES, Sleeps
from tests.components.environments.test_bubblewrap import inside, isolated, sandbox

pytestmark = pytest.mark.skipif(shutil.which("bwrap") is None, reason="needs bubblewrap")

PROGRAM = """
import asyncio, sys
from pathlib import Path
from tests.components.environments.test_bubblewrap import sandbox

async def hold():
    async with sandbox(Path(sys.argv[1]), network={"run": "none"}) as env:
        await env.enter("run")
        await env.exec(sys.argv[2])

async def several():
    await asyncio.gather(*(hold() for _ in range(2)))

asyncio.run(several())
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_nothing_outlives_the_program_that_opened_it(
    tmp_path: Path, number: signal.Signals
) -> None:
    sleeps = Sleeps()
    program = _program(tmp_path, sleeps)
    os.kill(program.pid, number)
    assert program.wait(timeout=30) != 0
    assert sleeps.wait(0) == 0
    _wait_until_empty(tmp_path)


def test_when_the_guard_dies_as_well_the_kernel_ends_the_rest(tmp_path: Path) -> None:
    sleeps = Sleeps()
    program = _program(tmp_path, sleeps)
    guards = psutil.Process(program.pid).children()
    assert len(guards) == 2
    for process in [*guards, psutil.Process(program.pid)]:
        process.suspend()
    for process in [*guards, psutil.Process(program.pid)]:
        process.kill()
    program.wait()
    assert sleeps.wait(0) == 0
    provider = isolated(tmp_path)
    left = asyncio.run(provider.leftovers())
    assert [(item.run_id, item.kept) for item in left] == [("walls", False)] * 2
    assert all(asyncio.run(provider.remove_leftover(item)) for item in left)
    _wait_until_empty(tmp_path)


def test_a_sandbox_whose_guard_is_killed_is_lost_and_cleared_up(tmp_path: Path) -> None:
    sleeps = Sleeps()

    async def scenario(env: Environment) -> None:
        running = asyncio.create_task(env.exec(ESCAPES.format(sleeps.command) + sleeps.command))
        assert await asyncio.to_thread(sleeps.wait, ESCAPED + 1) == ESCAPED + 1
        (guard,) = (
            child
            for child in psutil.Process().children()
            if any(str(tmp_path) in word for word in child.cmdline())
        )
        guard.kill()
        with pytest.raises(AgentCompassError) as caught:
            await running
        assert caught.value.code is Code.ENVIRONMENT_LOST
        assert await asyncio.to_thread(sleeps.wait, 0) == 0

    inside(scenario, tmp_path)


@pytest.mark.parametrize("delay", [0, 0.01, 0.05, 0.1, 0.2])
def test_cancelled_while_it_opens_or_changes_its_network(tmp_path: Path, delay: float) -> None:
    async def hold() -> None:
        async with sandbox(tmp_path, network={"run": "none"}) as env:
            for phase in ("run", "evaluation") * 100:
                await env.enter(phase)

    async def run() -> None:
        holding = asyncio.create_task(hold())
        await asyncio.sleep(delay)
        holding.cancel()
        with pytest.raises(asyncio.CancelledError):
            await holding

    before = set(psutil.Process().children(True))
    asyncio.run(run())
    assert list(tmp_path.iterdir()) == []
    assert set(psutil.Process().children(True)) <= before


def test_many_sandboxes_leave_no_handle(tmp_path: Path) -> None:
    async def one() -> None:
        async with sandbox(tmp_path, network={"run": "none"}) as env:
            await env.enter("run")
            await env.model_address("http://127.0.0.1:9/v1")
            await env.write_file("f", b"x")
            assert (await env.exec("cat f")).stdout == "x"

    async def run() -> None:
        await one()
        process = psutil.Process()
        handles, children = process.num_fds(), set(process.children(True))
        for _ in range(2):
            await asyncio.gather(*(one() for _ in range(8)))
        assert process.num_fds() <= handles
        assert set(process.children(True)) <= children

    asyncio.run(run())
    assert list(tmp_path.iterdir()) == []


def test_a_kept_sandbox_keeps_its_files(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        label = SandboxLabel("walls", AttemptKey(task_id="t", index=1), keep=True)
        async with isolated(tmp_path).open(Requirements(), label) as env:
            await env.exec("echo left > behind")

    asyncio.run(run())
    (kept,) = tmp_path.iterdir()
    assert (kept / "work/behind").read_text() == "left\n"
    assert stat.S_IMODE(kept.stat().st_mode) == 0o700
    assert f"cd {kept}/work" in caplog.text


def _program(temp_dir: Path, sleeps: Sleeps) -> "subprocess.Popen[bytes]":
    line = ESCAPES.format(sleeps.command) + sleeps.command
    program = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(temp_dir), line],
        cwd=Path(__file__).parents[3],
        stderr=subprocess.DEVNULL,
    )
    assert sleeps.wait(2 * (ESCAPED + 1), 60) == 2 * (ESCAPED + 1)
    return program


def _wait_until_empty(folder: Path) -> None:
    give_up = time.monotonic() + 30
    while list(folder.iterdir()) and time.monotonic() < give_up:
        time.sleep(0.05)
    assert list(folder.iterdir()) == []
