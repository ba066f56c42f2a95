"""How sandboxes at Modal end: by us, by themselves, and when we are dead."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from grpclib import Status

from agentcompass.components.contracts.errors import AgentCompassError, Code
from agentcompass.components.contracts.sandbox import Environment
from tests.components.environments.modal_sandboxes import (
    IMAGE,
    LABEL,
    inside,
    needs_sandboxes,
    nothing,
    only,
    provider,
    standin,
    until,
)
from tests.standins.modal_faults import NEVER
from tests.standins.modal_server import ModalStandin

__all__ = ["standin"]
pytestmark = needs_sandboxes

HOLD = """
import asyncio, sys
from tests.components.environments.modal_sandboxes import IMAGE, LABEL, provider
async def main():
    async with provider().open(IMAGE, LABEL) as env:
        print((await env.exec("echo open")).stdout, end="", flush=True)
        await asyncio.sleep(600)
asyncio.run(main())
"""


@pytest.mark.parametrize("status", [Status.FAILED_PRECONDITION, Status.UNAVAILABLE])
def test_an_end_that_is_refused_is_tried_again(standin: ModalStandin, status: Status) -> None:
    standin.faults.fail("SandboxTerminateV2", status, times=2, message="starting")
    inside(nothing)
    assert not only(standin).alive


def test_a_sandbox_that_cannot_be_ended_is_named_and_the_result_stands(
    standin: ModalStandin, caplog: pytest.LogCaptureFixture
) -> None:
    standin.faults.fail("SandboxTerminateV2", Status.FAILED_PRECONDITION, times=NEVER)
    inside(nothing)
    sandbox = only(standin)
    assert sandbox.alive
    assert f"sandbox {sandbox.id} could not be ended" in caplog.text


def test_closing_is_bounded_when_nothing_answers_any_more(
    standin: ModalStandin, monkeypatch: pytest.MonkeyPatch
) -> None:
    from agentcompass.components.environments._modal import opening as _modal_opening

    monkeypatch.setattr(_modal_opening, "_UNMAKE_SECONDS", 0.5)

    async def scenario(env: Environment) -> None:
        standin.faults.hang(".*", times=NEVER)

    started = time.monotonic()
    inside(scenario)
    assert time.monotonic() - started < 30


def test_a_command_is_cut_when_its_sandbox_closes(standin: ModalStandin) -> None:
    async def run() -> None:
        async with provider().open(IMAGE, LABEL) as env:
            running = asyncio.create_task(env.exec("sleep 100"))
            await until(lambda: standin.calls.count("TaskExecWait") >= 2)
        with pytest.raises(AgentCompassError) as caught:
            await asyncio.wait_for(running, 20)
        assert caught.value.code is Code.ENVIRONMENT_LOST

    asyncio.run(run())


def test_what_a_killed_process_left_is_listed_and_removed(standin: ModalStandin) -> None:
    root = Path(__file__).parents[3]
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD],
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(root)},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "open\n"
        bystander = only(standin)
        assert asyncio.run(provider().leftovers()) == ()  # its owner lives
        holder.send_signal(signal.SIGKILL)
        holder.wait(30)
    finally:
        holder.kill()
        holder.communicate()

    async def run() -> None:
        ours = provider()
        (left,) = await ours.leftovers()
        assert (left.id, left.run_id, left.task_id, left.kept) == (
            bystander.id,
            LABEL.run_id,
            LABEL.attempt.task_id,
            False,
        )
        assert left.created_at is not None
        assert str(holder.pid) in left.owner
        for _ in range(2):
            assert await ours.remove_leftover(left)
        assert await ours.leftovers() == ()

    asyncio.run(run())
    assert not bystander.alive


def test_only_our_own_sandboxes_are_leftovers(standin: ModalStandin) -> None:
    """One of another machine, one without our tags, one of a living process."""

    async def run() -> None:
        ours = provider()
        async with ours.open(IMAGE, LABEL), ours.open(IMAGE, LABEL), ours.open(IMAGE, LABEL):
            first, second, _ = standin.sandboxes.values()
            first.tags.update(machine="another", owner="1.1.1")
            second.tags = {"owner": "1.1.1"}
            assert await ours.leftovers() == ()
            first.tags.update(machine=_.tags["machine"])
            assert [left.id for left in await ours.leftovers()] == [first.id]

    asyncio.run(run())


def test_nothing_is_made_by_looking_for_leftovers(standin: ModalStandin) -> None:
    assert asyncio.run(provider(app_name="never-used").leftovers()) == ()
    assert standin.apps == {}


def test_leftovers_of_a_service_that_cannot_be_asked_are_an_error(standin: ModalStandin) -> None:
    inside(nothing)
    standin.faults.fail("SandboxListV2", Status.PERMISSION_DENIED, times=NEVER)
    with pytest.raises(AgentCompassError) as caught:
        asyncio.run(provider().leftovers())
    assert caught.value.code is Code.ENVIRONMENT_START


def test_many_openings_leave_no_connection_behind(standin: ModalStandin) -> None:
    import psutil

    async def run() -> None:
        ours = provider()
        process = psutil.Process()

        async def one() -> None:
            async with ours.open(IMAGE, LABEL) as env:
                assert (await env.exec("echo ok")).ok

        await one()
        await asyncio.sleep(0.5)
        before = len([c for c in process.net_connections() if c.status == "ESTABLISHED"])
        for _ in range(5):
            await asyncio.gather(one(), one(), one())
        await asyncio.sleep(0.5)
        after = len([c for c in process.net_connections() if c.status == "ESTABLISHED"])
        assert after <= before

    asyncio.run(run())
