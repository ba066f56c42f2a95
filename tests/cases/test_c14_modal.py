"""C14, C12: one deadline, ours, whatever the service says meanwhile; over it everything ends."""

import asyncio
import time

import pytest
from grpclib import Status

from agentcompass.components.contracts.sandbox import Environment
from tests.components.environments.modal_sandboxes import inside, needs_sandboxes, standin
from tests.standins.modal_server import ModalStandin

__all__ = ["standin"]
pytestmark = needs_sandboxes


@pytest.mark.parametrize("fault", ["none", "hang", "fail", "cut"])
def test_the_deadline_holds_whatever_the_worker_does(standin: ModalStandin, fault: str) -> None:
    async def scenario(env: Environment) -> None:
        match fault:
            case "hang":
                standin.faults.hang("TaskExecWait", times=1)
            case "fail":
                standin.faults.fail("TaskExec(Wait|StdioRead)", Status.UNAVAILABLE, times=4)
            case "cut":
                standin.faults.cut("TaskExec(Wait|StdioRead)", times=3)
        started = time.monotonic()
        result = await env.exec("echo early; sleep 30; echo late", timeout_seconds=3)
        assert 3 <= time.monotonic() - started < 20
        assert (result.exit_code, result.timed_out) == (None, True)
        assert result.stdout == "early\n"

    inside(scenario)


def test_exit_codes_that_look_like_a_time_out_are_none(standin: ModalStandin) -> None:
    async def scenario(env: Environment) -> None:
        for code in (124, 137, 143, 255):
            result = await env.exec(f"exit {code}", timeout_seconds=60)
            assert (result.exit_code, result.timed_out) == (code, False)

    inside(scenario)


def test_a_silent_command_outlives_every_single_call(standin: ModalStandin) -> None:
    async def scenario(env: Environment) -> None:
        standin.faults.fail("TaskExec(Wait|StdioRead)", Status.DEADLINE_EXCEEDED, times=6)
        result = await env.exec("sleep 4; echo passed", timeout_seconds=60)
        assert (result.exit_code, result.stdout) == (0, "passed\n")

    inside(scenario)


def test_nothing_of_a_command_out_of_time_is_left(standin: ModalStandin) -> None:
    async def scenario(env: Environment) -> None:
        beat = "while :; do date >> /tmp/beat; sleep 0.2; done"
        line = f"trap '' TERM; ({beat}) & setsid env -i sh -c '{beat}' & sleep 601"
        result = await env.exec(line, timeout_seconds=2)
        assert result.timed_out
        shown = await env.exec(
            "ps -eo stat,args | grep -E 'sleep 0|sleep 601|beat|^Z' | grep -v grep"
        )
        assert shown.stdout == ""
        size = (await env.exec("wc -c /tmp/beat")).stdout
        await asyncio.sleep(1)
        assert (await env.exec("wc -c /tmp/beat")).stdout == size

    inside(scenario)
