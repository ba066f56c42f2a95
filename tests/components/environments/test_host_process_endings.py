"""Whatever ends a sandbox, nothing of it stays: no process, no file."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import psutil
import pytest

from agentcompass.components.contracts.attempt import AttemptKey
from agentcompass.components.contracts.errors import AgentCompassError, Code
from agentcompass.components.contracts.requirements import Requirements
from agentcompass.components.contracts.sandbox import Environment, SandboxLabel
from agentcompass.components.environments.host_process import HostProcess, HostProcessParameters
from tests.components.environments.processes import ESCAPED, ESCAPES, Sleeps

LABEL = SandboxLabel("endings", AttemptKey(task_id="task", index=1))
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="subreapers are Linux's")


@asynccontextmanager
async def sandbox(temp_dir: Path) -> AsyncIterator[Environment]:
    provider = HostProcess(HostProcessParameters(temp_dir=str(temp_dir)))
    async with provider.open(Requirements(), LABEL) as env:
        yield env


def keeper_of(temp_dir: Path) -> psutil.Process:
    (keeper,) = [
        process
        for process in psutil.Process().children()
        if any(str(temp_dir) in word for word in process.cmdline())
    ]
    return keeper


def test_closing_ends_all_that_was_started(tmp_path: Path) -> None:
    sleeps = Sleeps()

    async def run() -> None:
        async with sandbox(tmp_path) as env:
            result = await env.exec(ESCAPES.format(sleeps.command) + "true")
            assert result.ok
            assert sleeps.wait(ESCAPED) == ESCAPED
            started = time.monotonic()
        assert time.monotonic() - started < 20

    asyncio.run(run())
    assert sleeps.alive() == []
    assert list(tmp_path.iterdir()) == []


def test_a_time_out_ends_its_own_command_only(tmp_path: Path) -> None:
    kept, ended = Sleeps(), Sleeps()

    async def run() -> None:
        async with sandbox(tmp_path) as env:
            await env.exec(f"setsid {kept.command} >/dev/null 2>&1 &")
            line = ESCAPES.format(ended.command) + "echo so far; sleep 1000"
            started = time.monotonic()
            result = await env.exec(line, timeout_seconds=3)
            assert time.monotonic() - started < 13
            assert (result.timed_out, result.stdout) == (True, "so far\n")
            assert ended.alive() == []
            assert len(kept.alive()) == 1
            zombies = [p for p in psutil.Process().children(True) if p.status() == "zombie"]
            assert zombies == []

    asyncio.run(run())
    assert kept.alive() == []


@pytest.mark.parametrize("delay", [0, 0.001, 0.01, 0.03, 0.1])
def test_cancelled_while_it_opens(tmp_path: Path, delay: float) -> None:
    async def hold() -> None:
        async with sandbox(tmp_path):
            await asyncio.sleep(100)

    async def run() -> None:
        task = asyncio.create_task(hold())
        await asyncio.sleep(delay)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    before = set(psutil.Process().children(True))
    asyncio.run(run())
    assert list(tmp_path.iterdir()) == []
    assert set(psutil.Process().children(True)) <= before


@pytest.mark.parametrize("times", [1, 3])
def test_cancelled_while_a_command_runs(tmp_path: Path, times: int) -> None:
    sleeps = Sleeps()

    async def hold() -> None:
        async with sandbox(tmp_path) as env:
            await env.exec(ESCAPES.format(sleeps.command) + sleeps.command)

    async def run() -> None:
        task = asyncio.create_task(hold())
        await asyncio.to_thread(sleeps.wait, ESCAPED + 1)
        for _ in range(times):
            task.cancel()
            await asyncio.sleep(0.05)
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(run())
    assert sleeps.alive() == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("direction", ["in", "out"])
def test_cancelled_in_a_file_transfer(tmp_path: Path, direction: str) -> None:
    sleeps = Sleeps()

    async def hold() -> None:
        async with sandbox(tmp_path) as env:
            await env.exec(f"setsid {sleeps.command} >/dev/null 2>&1 &")
            if direction == "in":
                await env.write_file("big", bytes(300_000_000))
            else:
                await env.exec("truncate -s 2G big")
                await env.read_file("big")
            raise AssertionError("too fast to be cancelled")

    async def run() -> None:
        task = asyncio.create_task(hold())
        while not [p for p in tmp_path.glob("*/*/*") if p.parent.name == "work"]:
            await asyncio.sleep(0.001)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(run())
    assert sleeps.alive() == []
    assert list(tmp_path.iterdir()) == []


def test_cancelled_while_it_closes(tmp_path: Path) -> None:
    sleeps = Sleeps()

    async def hold() -> None:
        async with sandbox(tmp_path) as env:
            await env.exec(f"(trap '' TERM; {sleeps.command}) & true")

    async def run() -> None:
        task = asyncio.create_task(hold())
        await asyncio.to_thread(sleeps.wait, 1)
        await asyncio.sleep(0.6)
        for _ in range(3):
            task.cancel()
            await asyncio.sleep(0.05)
        await asyncio.wait([task])

    asyncio.run(run())
    assert sleeps.alive() == []
    assert list(tmp_path.iterdir()) == []


def test_a_sandbox_whose_keeper_is_killed_is_lost_and_cleared_up(tmp_path: Path) -> None:
    sleeps = Sleeps()

    async def run() -> None:
        async with sandbox(tmp_path) as env:
            await env.exec(f"setsid {sleeps.command} >/dev/null 2>&1 &")
            running = asyncio.create_task(env.exec(sleeps.command))
            await asyncio.to_thread(sleeps.wait, 2)
            keeper_of(tmp_path).kill()
            with pytest.raises(AgentCompassError) as caught:
                await running
            assert caught.value.code is Code.ENVIRONMENT_LOST
            with pytest.raises(AgentCompassError):
                await env.exec("true")

    asyncio.run(run())
    assert sleeps.wait(0) == 0
    assert list(tmp_path.iterdir()) == []


def test_a_command_that_kills_what_watches_it_hurts_only_itself(tmp_path: Path) -> None:
    async def run() -> None:
        async with sandbox(tmp_path) as env:
            result = await env.exec("kill -9 $PPID; sleep 100", timeout_seconds=60)
            assert result.exit_code == -9
            assert (await env.exec("echo ok")).stdout == "ok\n"
            spared = await env.exec("kill $PPID; kill -INT $PPID; sleep 0.2; echo ok")
            assert spared.stdout == "ok\n"
            assert (await env.exec("kill -9 0; sleep 100", timeout_seconds=60)).exit_code == -9
            assert (await env.exec("echo ok")).stdout == "ok\n"

    asyncio.run(run())
    assert list(tmp_path.iterdir()) == []


PROGRAM = """
import asyncio, sys
from pathlib import Path
from tests.components.environments.test_host_process_endings import sandbox

async def hold():
    async with sandbox(Path(sys.argv[1])) as env:
        await env.exec(sys.argv[2])

async def several():
    await asyncio.gather(*(hold() for _ in range(2)))

asyncio.run(several())
"""


@pytest.mark.parametrize(
    "signals",
    [[signal.SIGINT], [signal.SIGINT, signal.SIGINT], [signal.SIGTERM], [signal.SIGKILL]],
    ids=["interrupt", "interrupt twice", "terminate", "kill"],
)
def test_a_program_that_ends_leaves_nothing(tmp_path: Path, signals: list[signal.Signals]) -> None:
    sleeps = Sleeps()
    line = ESCAPES.format(sleeps.command) + sleeps.command
    program = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(tmp_path), line],
        cwd=Path(__file__).parents[3],
        stderr=subprocess.DEVNULL,
    )
    try:
        assert sleeps.wait(2 * (ESCAPED + 1), 60) == 2 * (ESCAPED + 1)
        for number in signals:
            os.kill(program.pid, number)
            time.sleep(0.1)
        assert program.wait(timeout=30) != 0
    finally:
        program.kill()
        program.wait()
    assert sleeps.wait(0) == 0
    give_up = time.monotonic() + 30
    while list(tmp_path.iterdir()) and time.monotonic() < give_up:
        time.sleep(0.05)
    assert list(tmp_path.iterdir()) == []


def test_what_is_left_when_all_were_killed_at_once_is_found_and_removed(tmp_path: Path) -> None:
    sleeps = Sleeps()
    line = f"setsid {sleeps.command} & {sleeps.command}"
    program = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(tmp_path), line], cwd=Path(__file__).parents[3]
    )
    assert sleeps.wait(4, 60) == 4
    provider = HostProcess(HostProcessParameters(temp_dir=str(tmp_path)))
    assert asyncio.run(provider.leftovers()) == ()
    assert len(list(tmp_path.iterdir())) == 2
    watchers = [p for p in psutil.Process(program.pid).children(True) if p.name() == "ac-keeper"]
    for process in [*watchers, psutil.Process(program.pid)]:
        process.suspend()
    for process in [*watchers, psutil.Process(program.pid)]:
        process.kill()
    program.wait()

    async def clean() -> None:
        async with sandbox(tmp_path) as alive:
            left = await provider.leftovers()
            assert [item.run_id for item in left] == ["endings", "endings"]
            assert [await provider.remove_leftover(item) for item in left] == [True, True]
            assert await provider.leftovers() == ()
            assert (await alive.exec("echo ok")).stdout == "ok\n"

    asyncio.run(clean())
    assert sleeps.wait(0) == 0
    assert list(tmp_path.iterdir()) == []
