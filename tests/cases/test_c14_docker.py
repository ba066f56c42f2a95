"""One deadline, ours, also where the engine has none for commands (C14 in Docker)."""

import asyncio
import time

import pytest

from agentcompass.components.contracts.requirements import Requirements
from agentcompass.components.contracts.sandbox import Environment
from agentcompass.components.environments._docker import engine as _docker_engine
from agentcompass.components.environments.docker import Docker, DockerParameters
from tests.components.environments.docker_engine import IMAGE, needs_engine
from tests.conformance.sandbox import Scenario, label

pytestmark = needs_engine


def inside(scenario: Scenario) -> None:
    async def run() -> None:
        provider = Docker(DockerParameters())
        async with provider.open(Requirements(image=IMAGE), label()) as env:
            await scenario(env)

    asyncio.run(run())


def test_a_command_over_its_time_is_back_at_once_and_never_says_late() -> None:
    async def scenario(env: Environment) -> None:
        started = time.monotonic()
        result = await env.exec("sleep 30; echo late | tee said", timeout_seconds=3)
        assert 3 <= time.monotonic() - started < 20
        assert (result.timed_out, result.exit_code, result.stdout) == (True, None, "")
        await asyncio.sleep(1)
        assert not (await env.exec("test -e said || pgrep -x sleep")).ok

    inside(scenario)


def test_silence_longer_than_the_clients_own_patience_is_no_time_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_docker_engine, "CALL_SECONDS", 5.0)

    async def scenario(env: Environment) -> None:
        result = await env.exec("sleep 12; echo passed", timeout_seconds=120)
        assert (result.exit_code, result.stdout, result.timed_out) == (0, "passed\n", False)

    inside(scenario)


def test_the_exit_codes_of_time_outs_are_exit_codes() -> None:
    async def scenario(env: Environment) -> None:
        for code in (124, 137, 143):
            result = await env.exec(f"exit {code}", timeout_seconds=60)
            assert (result.exit_code, result.timed_out) == (code, False)
        own = await env.exec("timeout 1 sleep 30", timeout_seconds=60)
        assert (own.exit_code, own.timed_out) == (124, False)

    inside(scenario)
