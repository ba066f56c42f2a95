"""Whatever ends a docker sandbox, or befalls its engine: nothing is left, nothing hangs."""

import asyncio
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from agentcompass.components.contracts.attempt import AttemptKey
from agentcompass.components.contracts.errors import AgentCompassError, Code
from agentcompass.components.contracts.requirements import Requirements
from agentcompass.components.contracts.sandbox import Environment, SandboxLabel
from agentcompass.components.environments._docker import container as _docker_container
from agentcompass.components.environments._docker import sandbox as _docker_sandbox
from agentcompass.components.environments.docker import Docker, DockerParameters
from tests.components.environments.docker_engine import (
    IMAGE,
    client,
    containers_of,
    needs_engine,
    wait_until_gone,
)
from tests.standins.engine_wire import EngineWire, engine_wire

pytestmark = needs_engine

HOLDER = """
import asyncio, sys
from agentcompass.components.contracts.attempt import AttemptKey
from agentcompass.components.contracts.requirements import Requirements
from agentcompass.components.contracts.sandbox import SandboxLabel
from agentcompass.components.environments.docker import Docker, DockerParameters

run_id, image, count = sys.argv[1], sys.argv[2], int(sys.argv[3])

async def hold(provider, index, barrier):
    label = SandboxLabel(run_id, AttemptKey(task_id="task", index=index))
    async with provider.open(Requirements(image=image), label) as env:
        await env.exec("setsid sleep 1000 >/dev/null 2>&1 & true")
        await barrier.wait()
        if index == 1:
            print("open", flush=True)
        await env.exec("sleep 1000")

async def run():
    provider, barrier = Docker(DockerParameters()), asyncio.Barrier(count)
    await asyncio.gather(*(hold(provider, index, barrier) for index in range(1, count + 1)))

asyncio.run(run())
"""


def new_label() -> SandboxLabel:
    run_id = f"docker_endings_{secrets.token_hex(5)}"
    return SandboxLabel(run_id, AttemptKey(task_id="task", index=1))


@asynccontextmanager
async def sandbox(label: SandboxLabel, host: str | None = None) -> AsyncIterator[Environment]:
    provider = Docker(DockerParameters(host=host))
    async with provider.open(Requirements(image=IMAGE), label) as env:
        yield env


def holder(run_id: str, count: int) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", HOLDER, run_id, IMAGE, str(count)],
        cwd=Path(__file__).parents[3],
        stdout=subprocess.PIPE,
        text=True,
    )


def test_a_client_killed_outright_leaves_none_of_16_sandboxes() -> None:
    label = new_label()
    engine = client()
    bystander = engine.api.create_container(IMAGE, ["sleep", "600"])["Id"]
    engine.api.start(bystander)
    process = holder(label.run_id, 16)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "open\n"
        assert len(containers_of(label.run_id)) == 16
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        killed = time.monotonic()
        # measured: under a second; the rest is for a busy engine that removes them one by one
        assert wait_until_gone(label.run_id, 30) == []
        print(f"gone after {time.monotonic() - killed:.1f} s")
        assert engine.api.inspect_container(bystander)["State"]["Running"]
    finally:
        process.kill()
        process.wait()
        engine.api.remove_container(bystander, force=True)
        engine.close()


@pytest.mark.parametrize("delay", [0.1, 0.4, 0.7, 1.0])
def test_a_client_killed_while_it_opens_leaves_nothing_that_runs(delay: float) -> None:
    """What was created and not yet started stays for `env clean`, which finds it."""
    label = new_label()
    process = holder(label.run_id, 4)
    try:
        give_up = time.monotonic() + 60
        while not containers_of(label.run_id) and time.monotonic() < give_up:
            time.sleep(0.02)
        time.sleep(delay / 4)
    finally:
        process.kill()
        process.wait()
    time.sleep(3)

    async def run() -> None:
        provider = Docker(DockerParameters())
        for left in await provider.leftovers():
            if left.run_id == label.run_id:
                assert await provider.remove_leftover(left)

    asyncio.run(run())
    assert wait_until_gone(label.run_id, 30) == []


def test_a_container_somebody_removes_is_a_lost_sandbox() -> None:
    label = new_label()

    async def run() -> None:
        async with sandbox(label) as env:
            running = asyncio.create_task(env.exec("echo x > started; sleep 1000"))
            while not (await env.exec("test -s started")).ok:
                await asyncio.sleep(0.05)
            (found,) = containers_of(label.run_id)
            client().api.remove_container(found["Id"], force=True)
            uses = (running, env.exec("true"), env.read_file("started"), env.write_file("x", b""))
            for use in uses:
                with pytest.raises(AgentCompassError) as caught:
                    await asyncio.wait_for(use, 60)
                assert caught.value.code is Code.ENVIRONMENT_LOST
                assert "\n" not in str(caught.value)

    asyncio.run(run())


def test_an_engine_that_goes_away_is_a_lost_sandbox(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_docker_sandbox, "_CLOSE_SECONDS", 3.0)
    label = new_label()

    async def run(wire: EngineWire) -> None:
        async with sandbox(label, wire.host) as env:
            running = asyncio.create_task(env.exec("sleep 1000"))
            await asyncio.sleep(0.5)
            wire.fail("", "refuse")
            wire.cut()
            for use in (running, env.exec("true")):
                with pytest.raises(AgentCompassError) as caught:
                    await asyncio.wait_for(use, 60)
                assert caught.value.code is Code.ENVIRONMENT_LOST
        # Its guard is cut off: it ends without being told.
        assert wait_until_gone(label.run_id) == []

    with engine_wire() as wire:
        asyncio.run(run(wire))


@pytest.mark.parametrize("request_", ["containers/create", "/attach", "/start", "/exec"])
def test_two_failures_of_the_engine_are_got_over(request_: str) -> None:
    label = new_label()

    async def run(wire: EngineWire) -> None:
        wire.fail(request_, "refuse", times=2)
        async with sandbox(label, wire.host) as env:
            assert (await env.exec("echo ok")).stdout == "ok\n"
            assert len(containers_of(label.run_id)) == 1
        assert wait_until_gone(label.run_id) == []

    with engine_wire() as wire:
        asyncio.run(run(wire))


@pytest.mark.parametrize("request_", ["containers/create", "/attach", "/start"])
def test_an_engine_that_keeps_failing_is_told_in_one_line_and_nothing_stays(
    request_: str,
) -> None:
    label = new_label()

    async def run(wire: EngineWire) -> None:
        wire.fail(request_, "refuse")
        with pytest.raises(AgentCompassError, match="injected failure") as caught:
            async with sandbox(label, wire.host):
                pytest.fail("it opened")
        assert caught.value.code is Code.ENVIRONMENT_START
        assert "\n" not in str(caught.value)

    with engine_wire() as wire:
        asyncio.run(run(wire))
    assert wait_until_gone(label.run_id) == []


def test_a_container_whose_making_was_answered_to_nobody_is_not_forgotten() -> None:
    label = new_label()

    async def run(wire: EngineWire) -> None:
        wire.fail("containers/create", "lose", times=1)
        async with sandbox(label, wire.host) as env:
            assert (await env.exec("echo ok")).stdout == "ok\n"
            assert len(containers_of(label.run_id)) == 1

    with engine_wire() as wire:
        asyncio.run(run(wire))
    assert wait_until_gone(label.run_id) == []


def test_cancelled_while_the_engine_hangs_it_ends_in_bounded_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_docker_container, "_UNMAKING_SECONDS", 2.0)
    label = new_label()

    async def hold(wire: EngineWire) -> None:
        async with sandbox(label, wire.host):
            pytest.fail("it opened")

    async def run(wire: EngineWire) -> None:
        wire.fail("/start", "hang")
        opening = asyncio.create_task(hold(wire))
        while not any("/start" in line for line in wire.requests):
            await asyncio.sleep(0.05)
        opening.cancel()
        started = time.monotonic()
        with pytest.raises(asyncio.CancelledError):
            await opening
        assert time.monotonic() - started < 20
        wire.mend()
        wire.cut()  # the engine comes back: the thread that made it finishes its work
        assert await asyncio.to_thread(wait_until_gone, label.run_id) == []

    with engine_wire() as wire:
        asyncio.run(run(wire))


def test_closing_does_not_wait_for_an_engine_that_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_docker_sandbox, "_CLOSE_SECONDS", 2.0)
    label = new_label()

    async def run(wire: EngineWire) -> None:
        async with sandbox(label, wire.host) as env:
            await env.exec("sleep 1000 & true")
            wire.fail("^DELETE", "hang")
            started = time.monotonic()
        assert time.monotonic() - started < 20
        assert wait_until_gone(label.run_id) == []  # it ended by itself

    with engine_wire() as wire:
        asyncio.run(run(wire))


def test_a_command_cancelled_while_it_starts_never_runs() -> None:
    label = new_label()

    async def run() -> None:
        async with sandbox(label) as env:
            for pause in (0.0, 0.005, 0.01, 0.02, 0.03, 0.05):
                starting = asyncio.create_task(env.exec("sleep 0.2; echo x >> ran; sleep 1000"))
                await asyncio.sleep(pause)
                starting.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await starting
            await asyncio.sleep(1.5)
            assert (await env.exec("cat ran; pgrep -x sleep")).stdout == ""

    asyncio.run(run())
