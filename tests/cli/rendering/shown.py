"""Progress of a run as it may stand, for tests of how it is shown. Made anew: a clock goes on."""

from datetime import UTC, datetime, timedelta
from typing import Any

from agentcompass.components.contracts.progress import Progress
from agentcompass.components.contracts.usage import Usage

START = datetime(2026, 1, 1, tzinfo=UTC)

COUNTED = Usage(calls=30, input_tokens=12_000, output_tokens=345, cost_usd=0.5, unpriced_calls=1)
HUGE = Usage(calls=9, input_tokens=1_200_000_000, output_tokens=5, cost_usd=12345.678)


def progress(**values: Any) -> Progress:
    """Ten attempts, 75 seconds after the start; the clock goes on if it is running."""
    now = datetime.now(UTC) if values.get("state", "running") == "running" else START
    began = now - timedelta(seconds=74.6)
    return Progress.model_validate(
        {"planned": 10, "started_at": began, "updated_at": now, **values}
    )


def busy() -> Progress:
    return progress(
        planned=50,
        running=8,
        pausing=2,
        scored=14,
        unscored=6,
        skipped=1,
        taken_over=4,
        score=0.5713,
        interval95=(0.31268, 0.8318),
        unscored_by_owner={"model": 1, "environment": 4, "grader": 1},
        usage=COUNTED,
        expected_seconds_left=252.0,
    )


def huge_run() -> Progress:
    return progress(
        planned=50_000,
        running=128,
        scored=12_345,
        unscored=678,
        score=1234.5678,
        interval95=(-1000.123, 2345.678),
        unscored_by_owner={"model": 200, "environment": 400, "grader": 70, "framework": 8},
        usage=HUGE,
        expected_seconds_left=93_784.0,
    )


def just_begun() -> Progress:
    return progress(running=8)


def over() -> Progress:
    return progress(
        state="finished",
        scored=9,
        unscored=1,
        score=0.6,
        interval95=(0.3, 0.8),
        unscored_by_owner={"grader": 1},
        usage=COUNTED,
    )


def interrupted() -> Progress:
    return progress(state="interrupted", scored=3, score=1.0)
