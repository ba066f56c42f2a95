"""An interval ends where the values do."""

import pytest

from agentcompass.components.results.estimates import Bounds, TaskValue, estimate
from agentcompass.components.results.metrics import compute_metrics
from tests.components.results.records import detail


@pytest.mark.parametrize(
    ("score_range", "most", "cut"),
    [((0.0, 1.0), 1.0, ", cut to 0..1"), ((0.5, 1.1), 1.1, ", cut to 0..1.1"), (None, 1.27, "")],
)
def test_the_interval_of_scores_ends_where_the_scores_do(
    score_range: Bounds | None, most: float, cut: str
) -> None:
    details = [detail(f"t{n}", value) for n, value in enumerate((1.0, 1.0, 1.0, 0.5))]
    ids = [d.task_id for d in details]
    headline = compute_metrics(details, ids, primary="score", score_range=score_range).headline
    assert headline.interval95 == pytest.approx((0.4772, most), abs=5e-3)
    assert headline.interval_method == f"Student's t over tasks{cut}"


def test_that_of_the_mean_of_categories_does_so_too() -> None:
    values = [TaskValue(v, c, 1) for v, c in ((5.0, "a"), (4.0, "a"), (5.0, "b"), (1.0, "b"))]
    found = estimate(values, "macro", "number", "", (0.0, 5.0))
    assert found.interval95 is not None
    assert found.interval95 == (0.0, 5.0)
    assert (found.interval_method or "").endswith(", cut to 0..5")
    assert estimate(values, "macro", "number", "").interval95 != found.interval95


def test_an_attempt_without_a_score_counts_as_zero_below_every_score() -> None:
    details = [detail("a", 3.0), detail("b", 2.0)]
    planned = ["a", "b", "never"]
    found = compute_metrics(details, planned, primary="score", score_range=(1.0, 3.0)).headline
    assert found.interval95 is not None
    assert found.interval95[0] == 0.0
