"""The conformance suite of environment providers: what every sandbox must do, and the tests.

For a provider of your own: put this folder's files beside your tests (or install the source
distribution, which has them), and make a class of the suite in a test module; pytest collects
the behaviours with it. `pytest.register_assert_rewrite` on the modules of this folder, in your
conftest.py, makes failures readable.

    class TestMyProvider(EnvironmentConformance):
        requirements = Requirements(image="debian:12")       # what a plain sandbox needs

        def provider(self) -> EnvironmentProvider:           # called anew for each use
            return MyProvider(MyParameters())

        def outside_host(self) -> str:                       # for the network's behaviours
            return "host.my-engine.internal"

        async def count_alive(self, run_id: str) -> int:     # for "nothing is left"
            return len(await my_engine.list(label=run_id))

More may be overridden, see `SandboxScenarios`. The sandbox needs a POSIX shell and coreutils;
network behaviours need bash, some more are tested where git or python3 is there. What a
provider's `capabilities` do not promise is skipped by name; everything else must hold.

  environment            opening, closing, labels, users, workdir, identity
  environment_commands   exit codes, streams, variables, deadlines, background children
  environment_pressure   much output, many commands, large files, memory
  environment_files      reading, writing, capturing
  environment_uploads    local files and folders
  environment_endings    cancelling, closing in mid-command, what is kept
  environment_network    policies by phase, the model's address
"""

import asyncio

import pytest

from agentcompass.components.contracts.errors import AgentCompassError, Code
from agentcompass.components.contracts.protocols import KnowsImages
from agentcompass.components.contracts.sandbox import Environment
from tests.conformance.environment_commands import CommandConformance
from tests.conformance.environment_endings import EndingConformance
from tests.conformance.environment_files import FileConformance
from tests.conformance.environment_network import NetworkConformance
from tests.conformance.environment_pressure import PressureConformance
from tests.conformance.environment_uploads import UploadConformance
from tests.conformance.sandbox import label


class EnvironmentConformance(
    CommandConformance,
    PressureConformance,
    FileConformance,
    UploadConformance,
    EndingConformance,
    NetworkConformance,
):
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

    def test_a_closed_sandbox_is_lost_and_no_longer_alive(self) -> None:
        async def run() -> None:
            async with self.provider().open(self.requirements, label()) as env:
                assert await env.alive()
            assert not await env.alive()
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

    def test_a_sandbox_says_what_it_was_made_from(self) -> None:
        async def run() -> None:
            provider = self.provider()
            async with provider.open(self.requirements, label()) as env:
                image = env.image
            if not provider.capabilities.images:
                assert image is None
                return
            assert image  # by content: a name alone may be another image tomorrow
            assert "sha256:" in image or not image.endswith(":latest")
            async with provider.open(self.requirements, label()) as env:
                assert env.image == image
            if isinstance(provider, KnowsImages):
                assert image in await provider.image_names(self.requirements)

        asyncio.run(run())
