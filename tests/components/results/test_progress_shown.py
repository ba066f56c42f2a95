"""The words for a run's progress, the same wherever it is shown."""

import pytest

from agentcompass.components.results.progress_shown import about, clock_time, compact, sentence
from tests.cli.rendering.shown import HUGE, busy, interrupted, just_begun, over, progress


def test_a_line_says_everything_that_is_known() -> None:
    assert sentence(busy()) == (
        "21/50 attempts done · 8 running · 21 queued · "
        "score so far 0.571 (95 % interval 0.313 to 0.832) · "
        "14 scored · 4 of them taken over · 6 unscored: environment 4, grader 1, model 1 · "
        "2 to be tried again · 1 not needed · "
        "12.3k tokens · $0.50+ · 1:15 elapsed · about 4 min left"
    )
    assert sentence(over()) == (
        "10/10 attempts done · score 0.600 (95 % interval 0.300 to 0.800) · 9 scored · "
        "1 unscored: grader 1 · 12.3k tokens · $0.50+ · took 1:15"
    )
    assert sentence(interrupted()) == (
        "3/10 attempts done · 7 not done · interrupted · score of what ended 1.000 · 3 scored · "
        "took 1:15"
    )


def test_a_line_is_silent_about_what_is_not_known() -> None:
    assert sentence(just_begun()) == "0/10 attempts done · 8 running · 2 queued · 1:15 elapsed"


def test_without_the_clock_it_stays_the_same_until_the_run_moves_on() -> None:
    assert "elapsed" not in sentence(busy(), clock=False)
    assert sentence(busy(), clock=False).endswith("$0.50+ · about 4 min left")


def test_after_the_last_attempt_it_says_what_goes_on() -> None:
    assert sentence(progress(scored=10, score=0.1)).startswith(
        "10/10 attempts done · working out the results · score 0.100 · "
    )


def test_a_sum_that_may_be_more_has_a_plus() -> None:
    assert "$12,345.68 ·" in sentence(progress(scored=1, usage=HUGE))
    uncounted = HUGE.model_copy(update={"uncounted_calls": 1})
    assert "1.2G+ tokens" in sentence(progress(scored=1, usage=uncounted))


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0"), (950, "950"), (12_345, "12.3k"), (4_500_000, "4.5M")]
)
def test_compact(count: int, text: str) -> None:
    assert compact(count) == text


@pytest.mark.parametrize(("seconds", "text"), [(7.4, "0:07"), (754, "12:34"), (3723, "1:02:03")])
def test_clock_time(seconds: float, text: str) -> None:
    assert clock_time(seconds) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "10 s"), (14, "10 s"), (94, "90 s"), (100, "2 min"), (3569, "59 min"),
        (3570, "1 h"), (7830, "2 h 10 min"), (35_999, "10 h"), (93_784, "26 h"),
        (300_000, "3 days"),
    ],
)  # fmt: skip
def test_an_estimate_is_no_finer_than_it_deserves(seconds: float, text: str) -> None:
    assert about(seconds) == text
