"""Progress is calm, readable and never fatal."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from agentcompass.cli.rendering.progress import (
    PlainProgress,
    clock_time,
    compact,
    live_line,
    sentence,
)
from agentcompass.components.contracts.progress import Progress
from agentcompass.components.contracts.usage import Usage

START = datetime(2026, 1, 1, tzinfo=UTC)


def progress(**counts: Any) -> Progress:
    values = {"planned": 10, "started_at": START, "updated_at": START + timedelta(seconds=75)}
    return Progress.model_validate(values | counts)


def test_a_line_for_a_change_at_most_every_ten_seconds_and_always_the_end() -> None:
    lines: list[str] = []
    now = 100.0
    show = PlainProgress(lines.append, clock=lambda: now)
    show(progress(running=1))
    assert len(lines) == 1
    show(progress(running=2))
    assert len(lines) == 1, "too early"
    now = 111.0
    show(progress(running=2))
    assert len(lines) == 2
    now = 200.0
    show(progress(running=2))
    assert len(lines) == 2, "nothing changed"
    show(progress(running=0, scored=10))
    show(progress(running=0, scored=10, state="finished"))
    assert len(lines) == 4


def test_the_sentence_says_counts_blame_and_cost() -> None:
    text = sentence(
        progress(
            state="finished",
            running=1,
            scored=4,
            unscored=3,
            skipped=1,
            value_sum=3.0,
            unscored_by_owner={"model": 1, "environment": 2},
            usage=Usage(
                calls=3, input_tokens=12_000, output_tokens=345, cost_usd=0.5, unpriced_calls=1
            ),
        )
    )
    assert text == (
        "8/10 attempts · 1:15 · 1 running · 4 scored, mean 0.750 · "
        "3 unscored (environment 2, model 1) · 1 skipped · 12.3k tokens · $0.50+"
    )


def test_the_live_line_has_a_bar_and_no_more_than_a_line() -> None:
    line = live_line(progress(scored=5, value_sum=5.0))
    assert line.plain.startswith("━━━━━━┄┄┄┄┄┄ 5/10 attempts · ")
    assert line.no_wrap


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0"), (950, "950"), (12_345, "12.3k"), (4_500_000, "4.5M")]
)
def test_compact(count: int, text: str) -> None:
    assert compact(count) == text


@pytest.mark.parametrize(("seconds", "text"), [(7.4, "0:07"), (754, "12:34"), (3723, "1:02:03")])
def test_clock_time(seconds: float, text: str) -> None:
    assert clock_time(seconds) == text
