"""A sandbox runs commands, keeps files, ends what is over its time, and leaves nothing."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from agentcompass.components.contracts.attempt import AttemptKey
from agentcompass.components.contracts.errors import AgentCompassError, Code
from agentcompass.components.contracts.requirements import Requirements
from agentcompass.components.contracts.sandbox import Environment, SandboxLabel
from agentcompass.components.templates.environment import Example, ExampleParameters

REQUIRED = Requirements(env={"FROM_TASK": "yes"})


def inside(scenario: Callable[[Environment], Awaitable[None]], before: str = ":") -> None:
    async def run() -> None:
        provider = Example(ExampleParameters(before=before))
        label = SandboxLabel("test", AttemptKey(task_id="t", index=1))
        assert await provider.preflight([REQUIRED]) == []
        async with provider.open(REQUIRED, label) as env:
            await scenario(env)
        with pytest.raises(AgentCompassError) as closed:
            await env.exec("true")
        assert closed.value.code is Code.ENVIRONMENT_LOST
        assert not Path(env.workdir).exists()

    asyncio.run(run())


def test_commands_and_files() -> None:
    async def scenario(env: Environment) -> None:
        await env.write_file("sub/in.txt", b"two words")
        done = await env.exec(
            "wc -w < sub/in.txt; echo $FROM_TASK $ADDED; exit 3", env={"ADDED": "x"}
        )
        assert (done.exit_code, done.stdout.split()) == (3, ["2", "yes", "x"])
        assert (await env.exec(["printf", "%s", "a b"])).stdout == "a b"
        assert (await env.exec("cat", stdin=b"given")).stdout == "given"
        captured = await env.capture("sub")
        assert [(file.path, file.content) for file in captured.files] == [("in.txt", b"two words")]
        with pytest.raises(FileNotFoundError):
            await env.read_file("none")

    inside(scenario)


def test_the_line_before_a_command_counts() -> None:
    async def scenario(env: Environment) -> None:
        assert (await env.exec("echo $MARK")).stdout == "set\n"
        assert (await env.exec(["printenv", "MARK"])).stdout == "set\n"

    inside(scenario, "export MARK=set")


def test_a_command_over_its_time_is_ended() -> None:
    async def scenario(env: Environment) -> None:
        started = time.monotonic()
        done = await env.exec("sleep 60 & sleep 60", timeout_seconds=0.5)
        assert done.timed_out
        assert time.monotonic() - started < 30

    inside(scenario)
