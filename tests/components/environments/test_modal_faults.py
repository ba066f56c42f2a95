"""What goes wrong at Modal or on the way to it: retried where it helps, told where not."""

import asyncio
import time

import pytest
from grpclib import Status

from agentcompass.components.contracts.errors import AgentCompassError, Code
from agentcompass.components.contracts.sandbox import Environment
from agentcompass.components.environments._modal import opening as _modal_opening
from agentcompass.components.environments._modal import preflight as _modal_preflight
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


@pytest.mark.parametrize(
    "status", [Status.RESOURCE_EXHAUSTED, Status.UNAVAILABLE, Status.INTERNAL, Status.UNKNOWN]
)
def test_a_sandbox_opens_once_the_service_has_caught_itself(
    standin: ModalStandin, status: Status
) -> None:
    times = 2 if status is Status.RESOURCE_EXHAUSTED else 5  # more than the SDK's own retries
    standin.faults.fail("SandboxCreateV2", status, times=times)
    inside(nothing)
    assert standin.calls.count("SandboxCreateV2") == times + 1
    assert not only(standin).alive


def test_the_wait_the_server_asks_for_is_kept(standin: ModalStandin) -> None:
    standin.faults.fail("SandboxCreateV2", Status.RESOURCE_EXHAUSTED, retry_after=1.5)
    started = time.monotonic()
    inside(nothing)
    assert time.monotonic() - started >= 1.5


@pytest.mark.parametrize("fault", ["cut", "fail"])
def test_a_creation_whose_answer_is_lost_makes_one_sandbox(
    standin: ModalStandin, fault: str
) -> None:
    if fault == "cut":
        standin.faults.cut("SandboxCreateV2", times=1, after=True)
    else:
        standin.faults.fail("SandboxCreateV2", Status.UNAVAILABLE, times=9, after=True)

    async def scenario(env: Environment) -> None:
        assert (await env.exec("echo ok")).stdout == "ok\n"

    inside(scenario)
    assert not only(standin).alive


def test_a_slow_start_is_waited_for(standin: ModalStandin, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_modal_opening, "CREATE_SECONDS", 1.0)
    standin.faults.hang("SandboxCreateV2", seconds=3, after=True)

    async def scenario(env: Environment) -> None:
        assert (await env.exec("echo ok")).stdout == "ok\n"

    inside(scenario)
    assert not only(standin).alive  # the second try found the first one's


def test_an_opening_that_is_given_up_leaves_nothing(standin: ModalStandin) -> None:
    standin.faults.hang("SandboxCreateV2", times=NEVER, after=True)

    async def run() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(2), provider().open(IMAGE, LABEL):
                raise AssertionError
        await until(lambda: not standin.living())

    asyncio.run(run())
    assert len(standin.sandboxes) == 1


def test_an_opening_that_is_cancelled_early_leaves_nothing(standin: ModalStandin) -> None:
    """The server goes on with a creation that nobody waits for any more."""
    standin.faults.hang("SandboxCreateV2", seconds=1.5)

    async def run() -> None:
        async def hold() -> None:
            async with provider().open(IMAGE, LABEL):
                raise AssertionError

        opening = asyncio.create_task(hold())
        await until(lambda: "SandboxCreateV2" in standin.calls)
        opening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await opening
        assert not standin.living()

    asyncio.run(run())


def test_a_service_that_stays_down_is_told_and_bounded(
    standin: ModalStandin, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_modal_opening, "_TRIES", 2)
    standin.faults.fail("SandboxCreateV2", Status.UNAVAILABLE, times=NEVER)
    with pytest.raises(AgentCompassError, match="injected UNAVAILABLE") as caught:
        inside(nothing)
    assert caught.value.code is Code.ENVIRONMENT_START
    assert not standin.sandboxes


def test_waiting_for_quota_has_an_end_with_advice(standin: ModalStandin) -> None:
    standin.faults.most_alive = 0
    with pytest.raises(AgentCompassError, match="--provider-limit modal=N") as caught:
        inside(nothing, quota_wait_seconds=2)
    assert caught.value.code is Code.ENVIRONMENT_START
    assert standin.calls.count("SandboxCreateV2") > 1


@pytest.mark.parametrize(
    ("message", "code"),
    [
        ("workspace disk quota exceeded", Code.ENVIRONMENT_DISK_FULL),
        ("billing limit reached", Code.ENVIRONMENT_START),
    ],
)
def test_a_quota_that_waiting_does_not_help_is_told_at_once(
    standin: ModalStandin, message: str, code: Code
) -> None:
    standin.faults.quota_message = message
    with pytest.raises(AgentCompassError, match=f"{message}.*raise it") as caught:
        inside(nothing)
    assert caught.value.code is code
    assert standin.calls.count("SandboxCreateV2") == 1


def test_preflight_does_not_wait_for_a_server_that_never_answers(
    standin: ModalStandin, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_modal_preflight, "REACH_SECONDS", 1.0)
    standin.faults.hang("ClientHello", times=NEVER)
    (problem,) = asyncio.run(provider().preflight([IMAGE]))
    assert "cannot be reached" in problem
    monkeypatch.setenv("MODAL_SERVER_URL", "http://127.0.0.1:9")
    started = time.monotonic()
    (problem,) = asyncio.run(provider().preflight([IMAGE]))
    assert "cannot be reached" in problem
    assert time.monotonic() - started < 15


@pytest.mark.parametrize("status", [Status.RESOURCE_EXHAUSTED, Status.UNAVAILABLE])
def test_a_command_runs_once_whatever_its_start_meets(
    standin: ModalStandin, status: Status
) -> None:
    async def scenario(env: Environment) -> None:
        standin.faults.fail("TaskExecStart", status, times=2)
        assert (await env.exec("echo x >> count")).ok
        standin.faults.cut("TaskExecStart", after=True)
        assert (await env.exec("echo x >> count")).ok
        assert (await env.exec("wc -l < count")).stdout == "2\n"

    inside(scenario)


def test_lost_connections_lose_no_output_and_no_exit_code(standin: ModalStandin) -> None:
    async def scenario(env: Environment) -> None:
        line = "for i in $(seq 40); do echo $i; sleep 0.05; done; exit 3"
        running = asyncio.create_task(env.exec(line, timeout_seconds=60))
        for _ in range(3):
            await asyncio.sleep(0.4)
            standin.drop_connections()
        result = await running
        assert result.exit_code == 3
        assert result.stdout == "".join(f"{number}\n" for number in range(1, 41))

    inside(scenario)


def test_files_arrive_whole_over_lost_connections(standin: ModalStandin) -> None:
    data = bytes(range(256)) * 20_000

    async def scenario(env: Environment) -> None:
        standin.faults.cut("TaskExecStdinWrite", times=2)
        standin.faults.cut("TaskExecStdinWrite", after=True)
        await env.write_file("file", data)
        standin.faults.cut("TaskExecStdioRead")
        assert await env.read_file("file") == data

    inside(scenario)


def test_a_worker_that_never_answers_does_not_hold_a_deadline_up(standin: ModalStandin) -> None:
    async def scenario(env: Environment) -> None:
        standin.faults.hang("TaskExecWait", times=1)
        started = time.monotonic()
        result = await env.exec("echo out; sleep 60", timeout_seconds=1)
        assert (result.timed_out, result.stdout) == (True, "out\n")
        assert time.monotonic() - started < 30

    inside(scenario)


def test_a_sandbox_that_goes_away_takes_its_commands_with_it(standin: ModalStandin) -> None:
    async def scenario(env: Environment) -> None:
        running = asyncio.create_task(env.exec("echo started > here; sleep 100"))
        while not (await env.exec("test -e here")).ok:
            await asyncio.sleep(0.05)
        standin.kill(only(standin).id)
        with pytest.raises(AgentCompassError) as caught:
            await asyncio.wait_for(running, 30)
        assert caught.value.code is Code.ENVIRONMENT_LOST
        for use in (env.exec("true"), env.read_file("here"), env.enter("run")):
            with pytest.raises(AgentCompassError) as caught:
                await use
            assert caught.value.code is Code.ENVIRONMENT_LOST

    inside(scenario)


def test_a_sandbox_at_the_end_of_its_life_is_lost(standin: ModalStandin) -> None:
    async def scenario(env: Environment) -> None:
        with pytest.raises(AgentCompassError) as caught:
            await asyncio.wait_for(env.exec("sleep 100"), 30)
        assert caught.value.code is Code.ENVIRONMENT_LOST

    inside(scenario, extras={"timeout": 2})
