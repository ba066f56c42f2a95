"""However a sandbox ends, it ends whole: nothing hangs, nothing is left."""

import asyncio

import pytest

from agentcompass.components.contracts.errors import AgentCompassError, Code
from agentcompass.components.contracts.sandbox import Environment, ExecResult
from tests.conformance.sandbox import SandboxScenarios, label, own_run_id


class EndingConformance(SandboxScenarios):
    def test_closing_ends_a_command_under_way(self) -> None:
        run_id = own_run_id()

        async def run() -> None:
            async with self.provider().open(self.requirements, label(run_id=run_id)) as env:
                running = asyncio.create_task(env.exec("echo x > started; sleep 1000"))
                while not (await env.exec("test -s started")).ok:
                    await asyncio.sleep(0.05)
            async with asyncio.timeout(60):
                (outcome,) = await asyncio.gather(running, return_exceptions=True)
            if isinstance(outcome, ExecResult):  # it may be told: not as a success, nor as late
                assert outcome.exit_code != 0
                assert not outcome.timed_out
            else:
                assert isinstance(outcome, AgentCompassError)
                assert outcome.code is Code.ENVIRONMENT_LOST
            await self._nothing_left(run_id)

        asyncio.run(run())

    @pytest.mark.parametrize("delay", [0, 0.02, 0.2])
    def test_cancelled_while_it_opens_it_leaves_nothing(self, delay: float) -> None:
        run_id = own_run_id()

        async def hold() -> None:
            async with self.provider().open(self.requirements, label(run_id=run_id)):
                await asyncio.sleep(1000)

        async def run() -> None:
            opening = asyncio.create_task(hold())
            await asyncio.sleep(delay)
            opening.cancel()
            with pytest.raises(asyncio.CancelledError):
                await opening
            await self._nothing_left(run_id)

        asyncio.run(run())

    def test_cancelled_in_the_work_it_leaves_nothing(self) -> None:
        run_id = own_run_id()
        opened = asyncio.Event()

        async def hold() -> None:
            async with self.provider().open(self.requirements, label(run_id=run_id)) as env:
                await env.exec("sleep 1000 >/dev/null 2>&1 & setsid sleep 1000 & true")
                opened.set()
                await env.exec("sleep 1000")

        async def run() -> None:
            holding = asyncio.create_task(hold())
            await opened.wait()
            for _ in range(3):  # impatient: closing must not be cut short
                holding.cancel()
                await asyncio.sleep(0.05)
            with pytest.raises(asyncio.CancelledError):
                await holding
            await self._nothing_left(run_id)

        asyncio.run(run())

    def test_an_open_sandbox_is_no_leftover(self) -> None:
        run_id = own_run_id()

        async def run() -> None:
            provider = self.provider()
            async with provider.open(self.requirements, label(run_id=run_id)) as env:
                found = await provider.leftovers()
                assert [left for left in found if left.run_id == run_id] == []
                assert (await env.exec("true")).ok
                assert await self.count_alive(run_id) in (None, 1)
            await self._nothing_left(run_id)

        asyncio.run(run())

    def test_a_kept_sandbox_is_listed_and_removed_on_request(self) -> None:
        run_id = own_run_id()

        async def run() -> None:
            provider = self.provider()
            keep = label("task 汉/1", run_id=run_id, keep=True)
            async with provider.open(self.requirements, keep) as env:
                await env.write_file("left", b"behind")
            mine = [left for left in await provider.leftovers() if left.run_id == run_id]
            assert [(left.task_id, left.purpose, left.kept) for left in mine] == [
                ("task 汉/1", "run", True)
            ]
            assert mine[0].created_at is not None
            assert await self.count_alive(run_id) in (None, 1)
            for _ in range(2):  # what is gone already is removed
                assert await provider.remove_leftover(mine[0])
            await self._nothing_left(run_id)

        asyncio.run(run())

    def test_one_sandbox_closing_leaves_its_neighbour_alone(self) -> None:
        async def run() -> None:
            provider, same = self.provider(), label()
            async with provider.open(self.requirements, same) as stays:
                await stays.exec("(while :; do echo x >> beat; sleep 0.1; done) & true")
                async with provider.open(self.requirements, same) as goes:
                    await goes.exec("sleep 1000 & true")
                await self._still_beats(stays)

        asyncio.run(run())

    async def _still_beats(self, env: Environment) -> None:
        before = await env.exec("wc -c < beat")
        assert before.ok
        await asyncio.sleep(1)
        assert (await env.exec("wc -c < beat")).stdout != before.stdout

    async def _nothing_left(self, run_id: str) -> None:
        for _ in range(100):  # a service may take a while to show what it was told
            if await self.count_alive(run_id) in (None, 0):
                break
            await asyncio.sleep(0.1)
        assert await self.count_alive(run_id) in (None, 0)
        found = await self.provider().leftovers()
        assert [left for left in found if left.run_id == run_id] == []
