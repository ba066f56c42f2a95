"""The expected rest of a run: said when something is known, and near the truth then."""

import heapq
import random
from collections.abc import Callable

import pytest

from agentcompass.components.execution.time_left import TimeLeft

LOOK = 0.5


def looks(attempts: int, at_once: int, length: Callable[[], float]) -> list[tuple[float, float]]:
    """(truth, said) at each look at a run of attempts that take so long; no clock is waited for."""
    left, now, begun = TimeLeft(), 50.0, 0
    running: list[tuple[float, int]] = []
    seen: list[tuple[float, float | None]] = []
    while begun < attempts or running:
        while begun < attempts and len(running) < at_once:
            left.started(begun, now)
            heapq.heappush(running, (now + length(), begun))
            begun += 1
        end, place = heapq.heappop(running)
        while now + LOOK < end:
            now += LOOK
            seen.append((now, left.seconds(attempts - begun, now)))
        now = end
        left.ended(place, now)
    assert left.seconds(0, now) is None, "nothing is left"
    return [(now - at, said) for at, said in seen if said is not None]


def test_equal_attempts_are_told_to_the_second() -> None:
    seen = looks(96, 32, lambda: 10.0)
    assert seen
    assert all(abs(truth - said) < 1 for truth, said in seen)


@pytest.mark.parametrize("seed", range(3))
def test_a_long_tail_is_neither_forgotten_nor_feared(seed: int) -> None:
    choose = random.Random(seed)
    seen = looks(300, 24, lambda: choose.lognormvariate(3, 1))
    whole = seen[0][0]
    early = [(truth, said) for truth, said in seen if truth > whole / 4]
    assert all(truth / 2.5 < said < 2.5 * truth for truth, said in early)
    assert all(said < 0.6 * whole for truth, said in seen if truth < whole / 4)


def test_it_does_not_jump() -> None:
    choose = random.Random(1)
    said = [said for _, said in looks(300, 24, lambda: choose.lognormvariate(3, 1))]
    steps = [abs(after - before) for before, after in zip(said, said[1:], strict=False)]
    assert max(steps) < 0.1 * said[0]


def test_nothing_is_said_before_enough_has_ended() -> None:
    left = TimeLeft()
    for place in range(40):
        left.started(place, 0.0)
    for place in range(12):
        left.ended(place, 5.0)
        assert left.seconds(60, 5.0) is None
    for place in range(12, 20):
        left.ended(place, 6.0)
    assert left.seconds(60, 6.0) is not None


def test_the_rest_is_no_shorter_than_a_pause_before_another_try() -> None:
    left = TimeLeft()
    for place in range(5):
        left.started(place, 0.0)
    for place in range(1, 5):
        left.ended(place, 2.0)
    left.ended(0, 2.0, for_good=False)
    left.pauses(2.0 + 300)
    assert left.pausing(2.0) == 1
    rest = left.seconds(1, 2.0)
    assert rest is not None
    assert rest >= 300
    assert left.pausing(303.0) == 0


def test_attempts_that_will_not_be_needed_take_no_time() -> None:
    """`pass`: three of four attempts of a task were skipped."""
    rest = []
    for skipped in (0, 30):
        left = TimeLeft()
        for place in range(10):
            left.started(place, 10.0 * place)
            left.ended(place, 10.0 * place + 10)
        for _ in range(skipped):
            left.skipped()
        rest.append(left.seconds(100, 100.0))
    assert rest[0] == pytest.approx(1000, rel=0.05)
    assert rest[1] == pytest.approx(250, rel=0.1)
