import asyncio
import time

from agentcompass.components.models._backoff import LONGEST_DELAY, Throttle, delay_before


def test_delays_grow_to_a_bound_and_never_undercut_what_was_asked() -> None:
    for _ in range(200):
        assert 0.5 <= delay_before(1, None) <= 1
        assert delay_before(50, None) <= LONGEST_DELAY
        assert 5 <= delay_before(1, 5) <= 6


def test_a_refusal_halves_the_limit_once_and_successes_lift_it() -> None:
    async def scenario() -> list[int | None]:
        throttle = Throttle()
        throttle.in_flight = 8
        seen: list[int | None] = []
        for _ in range(3):  # a burst of refusals is one event
            throttle.refused(0.1)
        seen.append(throttle.limit)
        await asyncio.sleep(0.15)
        throttle.refused(0.01)
        seen.append(throttle.limit)
        for _ in range(40):
            throttle.succeeded()
        seen.append(throttle.limit)
        return seen

    assert asyncio.run(scenario()) == [4, 2, None]


def test_calls_wait_out_the_pause_and_then_pass_within_the_limit() -> None:
    async def scenario() -> tuple[float, int]:
        throttle, most = Throttle(), 0
        async with throttle.slot():
            throttle.refused(0.2)
        began = time.monotonic()

        async def call() -> None:
            nonlocal most
            async with throttle.slot():
                most = max(most, throttle.in_flight)
                await asyncio.sleep(0.01)

        await asyncio.gather(*(call() for _ in range(5)))
        return time.monotonic() - began, most

    seconds, most = asyncio.run(scenario())
    assert seconds >= 0.19
    assert most == 1
