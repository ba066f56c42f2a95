"""The conformance suite of environment providers.

A provider's test module makes a class of it; pytest collects the behaviours with it:

    class TestHostProcess(EnvironmentConformance):
        def provider(self) -> EnvironmentProvider:
            return HostProcess(HostProcessParameters())

`requirements` (an image) and `slack_seconds` may be overridden as well.
"""

import asyncio

import pytest

from agentcompass.components.contracts.errors import AgentCompassError, Code
from agentcompass.components.contracts.sandbox import Environment
from tests.conformance.environment_commands import CommandConformance
from tests.conformance.environment_files import FileConformance
from tests.conformance.sandbox import label


class EnvironmentConformance(CommandConformance, FileConformance):
    def test_preflight_has_nothing_to_say_about_a_sandbox_that_opens(self) -> None:
        assert asyncio.run(self.provider().preflight([self.requirements])) == []

    def test_sandboxes_are_apart_even_for_the_same_attempt(self) -> None:
        async def run() -> None:
            provider, same = self.provider(), label()
            async with (
                provider.open(self.requirements, same) as one,
                provider.open(self.requirements, same) as other,
            ):
                await one.write_file("mine", b"1")
                assert not (await other.exec("test -e mine")).ok

        asyncio.run(run())

    def test_a_sandbox_starts_empty(self) -> None:
        async def scenario(env: Environment) -> None:
            assert (await env.exec("ls -A")).stdout == ""

        self.inside(scenario)

    def test_a_closed_sandbox_is_lost(self) -> None:
        async def run() -> None:
            async with self.provider().open(self.requirements, label()) as env:
                pass
            for use in (env.exec("true"), env.read_file("x"), env.write_file("x", b"")):
                with pytest.raises(AgentCompassError) as caught:
                    await use
                assert caught.value.code is Code.ENVIRONMENT_LOST

        asyncio.run(run())

    def test_a_failure_inside_closes_the_sandbox_and_rises(self) -> None:
        async def run() -> None:
            left = []

            async def fail_inside() -> None:
                async with self.provider().open(self.requirements, label()) as env:
                    left.append(env)
                    raise ZeroDivisionError

            with pytest.raises(ZeroDivisionError):
                await fail_inside()
            with pytest.raises(AgentCompassError):
                await left[0].exec("true")

        asyncio.run(run())

    def test_odd_task_ids_open_like_any_other(self) -> None:
        async def run() -> None:
            for task_id in ("../../etc/x", "a" * 500, "汉字 / \n", "", "-rf *"):
                odd = label(task_id)
                async with self.provider().open(self.requirements, odd) as env:
                    assert (await env.exec("echo ok")).stdout == "ok\n"

        asyncio.run(run())

    def test_another_user_is_served_or_refused_clearly(self) -> None:
        async def scenario(env: Environment) -> None:
            if self.provider().capabilities.users:
                assert (await env.exec("id -un", user="daemon")).stdout == "daemon\n"
                return
            with pytest.raises(AgentCompassError, match="daemon"):
                await env.exec("true", user="daemon")

        self.inside(scenario)

    def test_a_workdir_is_given_or_refused_before_anything_opens(self) -> None:
        required = self.requirements.model_copy(update={"workdir": "/opt/task/place"})

        async def run() -> None:
            provider = self.provider()
            if not provider.capabilities.workdir:
                problems = await provider.preflight([required, required])
                assert len(problems) == 1
                assert "/opt/task/place" in problems[0]
                return
            async with provider.open(required, label()) as env:
                assert env.workdir == "/opt/task/place"
                assert (await env.exec("pwd")).stdout == "/opt/task/place\n"

        asyncio.run(run())
