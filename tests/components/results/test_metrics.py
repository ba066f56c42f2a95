import math
import tracemalloc

import pytest

from agentcompass.components.contracts.attempt import Verdict
from agentcompass.components.contracts.errors import Code, Owner, RequestError
from agentcompass.components.results.metrics import compute_metrics
from agentcompass.components.results.metrics_record import Metric, Metrics
from agentcompass.components.results.statistics import wilson
from tests.components.results.records import detail, record

LOST = Code.ENVIRONMENT_START


def by_name(metrics: Metrics) -> dict[str, Metric]:
    return {metric.name: metric for metric in metrics.metrics}


def classes_sum_to_planned(metrics: Metrics) -> bool:
    outcomes = metrics.outcomes
    parts = [outcomes.correct, outcomes.incorrect, outcomes.scored]
    total = sum(part for part in parts if part is not None) + sum(outcomes.unscored.values())
    coverage = metrics.coverage
    return (
        total + outcomes.skipped + outcomes.missing
        == coverage.planned_attempts
        == coverage.scored + coverage.unscored + coverage.skipped + coverage.missing
    )


# Case C36: fewer scored attempts than k


@pytest.fixture
def c36():
    details = [
        detail("t1", 0, 0, LOST, LOST),
        detail("t2", 1, 0, 0, 0),
        detail("t3", 1, LOST, 0, 1),
    ]
    return compute_metrics(details, ["t1", "t2", "t3", "t4"], k=4)


def test_avg_at_k_counts_unscored_as_zero_and_stands_beside_the_scored_mean(c36):
    avg = by_name(c36)["avg@4"]
    assert c36.headline.name == "avg@4"
    assert c36.headline.over == "planned"
    assert c36.headline.value == avg.planned.value == (0 + 1 / 4 + 2 / 4 + 0) / 4
    assert (avg.planned.n_tasks, avg.planned.n_attempts) == (4, 16)
    assert avg.scored.value == pytest.approx((0 + 1 / 4 + 2 / 3) / 3)
    assert (avg.scored.n_tasks, avg.scored.n_attempts) == (3, 9)


def test_pass_at_k_is_not_available_for_tasks_with_fewer_scores(c36):
    last = by_name(c36)["pass@4"]
    assert (last.scored.value, last.scored.n_tasks, last.scored.n_attempts) == (1.0, 1, 4)
    assert (last.planned.value, last.planned.n_tasks) == (0.5, 4)
    every = by_name(c36)["pass^4"]
    assert (every.scored.value, every.scored.n_tasks) == (0.0, 1)
    assert every.planned.value == 0.0


def test_pass_at_j_is_the_unbiased_estimate_where_there_are_j_scores(c36):
    one, two, three = (by_name(c36)[f"pass@{j}"] for j in (1, 2, 3))
    assert one.scored.value == pytest.approx((0 + 1 / 4 + 2 / 3) / 3)
    assert (two.scored.value, two.scored.n_tasks) == (pytest.approx((0 + 1 / 2 + 1) / 3), 3)
    assert (three.scored.value, three.scored.n_tasks) == (pytest.approx((3 / 4 + 1) / 2), 2)
    assert two.planned.value == pytest.approx((0 + 1 / 2 + 5 / 6 + 0) / 4)
    assert one.planned.value == c36.headline.value


def test_what_is_missing_is_named(c36):
    coverage = c36.coverage
    assert (coverage.planned_tasks, coverage.scored_tasks) == (4, 3)
    assert (coverage.scored, coverage.unscored, coverage.missing) == (9, 3, 4)
    assert [(m.task_id, m.indexes) for m in coverage.missing_attempts] == [("t4", (1, 2, 3, 4))]
    assert coverage.fraction == 9 / 16
    assert classes_sum_to_planned(c36)


def test_the_standard_error_of_avg_is_clustered_by_task(c36):
    scored = by_name(c36)["avg@4"].scored
    # Values 0, 1/4, 2/3: mean 11/36, squares (11² + 2² + 13²)/36² = 294/1296, /2, /3.
    assert scored.standard_error == pytest.approx(math.sqrt(294 / 1296 / 2 / 3))
    # ± 4.302653 * .194444 leaves 0..1 at both ends.
    assert scored.interval95 == (0.0, 1.0)
    assert scored.interval_method == "Student's t over tasks, cut to 0..1"
    planned = by_name(c36)["avg@4"].planned
    # Values 0, 1/4, 1/2, 0: mean 3/16, squares (9 + 1 + 25 + 9)/256 = 44/256, /3, /4.
    error = math.sqrt(44 / 256 / 12)
    assert planned.standard_error == pytest.approx(error)
    assert planned.interval95 == (0.0, pytest.approx(3 / 16 + 3.182446 * error))


def test_no_success_is_not_a_success_however_few_scores():
    metrics = by_name(compute_metrics([detail("t", 0, LOST, LOST)], ["t"], k=3))
    assert metrics["pass@3"].scored.value is None
    assert metrics["pass@3"].scored.note == "no task has 3 scores"
    assert metrics["pass@3"].planned.value == 0.0
    assert metrics["pass@2"].scored.value is None


@pytest.mark.parametrize("k", [0, -1])
def test_k_must_be_positive(k):
    with pytest.raises(RequestError, match="^k: "):
        compute_metrics([], ["t"], k=k)


def test_more_attempts_than_planned_are_refused():
    with pytest.raises(RequestError, match="planned are 1..1"):
        compute_metrics([detail("t", 1, 0)], ["t"], k=1)


# Case C37: denominators


C37 = [1, 1, 1, 1, 1, 0, 0, 0, LOST, LOST]


def c37(unscored: str = "zero") -> Metrics:
    details = [detail(f"t{n}", outcome) for n, outcome in enumerate(C37)]
    timed_out = record("t7", 1, 0, timed_out=True)
    details[7] = details[7].model_copy(update={"attempts": (timed_out,)})
    return compute_metrics(details, [d.task_id for d in details], unscored=unscored)


def test_scored_mean_strict_mean_and_coverage_stand_side_by_side():
    metrics = c37()
    native = by_name(metrics)["native@1"]
    assert native.planned.value == 5 / 10
    assert native.scored.value == 5 / 8
    assert metrics.coverage.fraction == 8 / 10
    assert metrics.timed_out == 1
    assert metrics.outcomes.correct == 5
    assert metrics.outcomes.incorrect == 3
    assert metrics.outcomes.unscored == {"environment.start": 2}
    assert metrics.failures_by_owner == {Owner.ENVIRONMENT: 2}
    assert classes_sum_to_planned(metrics)


def test_switching_the_option_changes_only_the_headline():
    zero, exclude = c37().model_dump(), c37("exclude").model_dump()
    assert (zero["headline"]["value"], exclude["headline"]["value"]) == (5 / 10, 5 / 8)
    assert exclude["headline"]["over"] == "scored"
    assert "left out" in exclude["headline"]["definition"]
    for changed in ("headline", "unscored"):
        del zero[changed], exclude[changed]
    assert zero == exclude


def test_a_binary_result_has_wilsons_interval():
    native = by_name(c37())["native@1"]
    assert native.planned.interval95 == wilson(5, 10) == pytest.approx((0.2366, 0.7634), abs=5e-5)
    assert native.scored.interval95 == pytest.approx((0.3057, 0.8632), abs=5e-5)
    assert native.planned.interval_method == "Wilson"
    # 5 of 10: variance 10 * .25 / 9, / 10
    assert native.planned.standard_error == pytest.approx(math.sqrt(0.25 / 9))


def test_an_attempt_scored_by_the_agents_timeout_counts_and_one_without_score_does_not():
    # Error beside a score: the status says what counts.
    odd = record("a", 1, LOST, verdict=Verdict(correct=True))
    only = detail("a").model_copy(update={"attempts": (odd,)})
    metrics = compute_metrics([only], ["a"])
    assert metrics.headline.value is None
    assert metrics.coverage.unscored == 1


def test_an_all_error_run_has_no_score_and_no_zero():
    for k, strategy in ((1, "avg"), (3, "avg"), (3, "pass")):
        details = [detail(t, *[LOST] * k) for t in ("a", "b")]
        metrics = compute_metrics(details, ["a", "b"], k=k, strategy=strategy)
        assert metrics.headline.value is None
        assert metrics.headline.note == "no score"
        assert metrics.headline.interval95 is None
        assert all(m.planned.value is None and m.scored.value is None for m in metrics.metrics)
        assert metrics.coverage.fraction == 0.0
        assert classes_sum_to_planned(metrics)


def test_nothing_planned_is_no_score():
    metrics = compute_metrics([], [])
    assert metrics.headline.value is None
    assert metrics.coverage.fraction is None


# Strategy pass


def test_pass_stops_at_success_and_skipped_attempts_are_not_missing():
    details = [
        detail("a", 1, "skip", "skip"),
        detail("b", 0, 1, "skip"),
        detail("c", 0, 0, 0),
        detail("d", LOST, 1, "skip"),
        detail("e", LOST, 0, 0),
    ]
    metrics = compute_metrics(details, ["a", "b", "c", "d", "e"], k=3, strategy="pass")
    assert [m.name for m in metrics.metrics] == ["pass@3"]
    last = metrics.metrics[0]
    assert (last.planned.value, last.planned.n_tasks, last.planned.n_attempts) == (3 / 5, 5, 11)
    # e is undecided: no success, and one attempt without a score.
    assert (last.scored.value, last.scored.n_tasks, last.scored.n_attempts) == (3 / 4, 4, 7)
    assert last.planned.interval95 == wilson(3, 5)
    assert (metrics.coverage.skipped, metrics.coverage.missing) == (4, 0)
    assert metrics.coverage.fraction == 9 / 11
    assert classes_sum_to_planned(metrics)


def test_attempts_after_a_success_are_skipped_even_if_no_one_wrote_so():
    metrics = compute_metrics([detail("a", 1), detail("b", 0)], ["a", "b"], k=3, strategy="pass")
    assert (metrics.coverage.skipped, metrics.coverage.missing) == (2, 2)
    assert [m.task_id for m in metrics.coverage.missing_attempts] == ["b"]
    assert classes_sum_to_planned(metrics)


def test_pass_with_one_attempt_is_pass_at_1():
    assert compute_metrics([detail("a", 1)], ["a"], strategy="pass").headline.name == "pass@1"


# Very many attempts


def test_of_many_attempts_a_few_rows_are_told():
    metrics = compute_metrics([detail("a", *[0, 1] * 32)], ["a"], k=64)
    told = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 16, 20, 32, 50]
    names = ["avg@64", "pass@64", "pass^64", *(f"pass@{j}" for j in told)]
    assert [metric.name for metric in metrics.metrics] == names


@pytest.mark.parametrize("strategy", ["avg", "pass"])
def test_attempts_that_never_were_cost_no_memory(strategy):
    k = 50_000_000
    tracemalloc.start()
    metrics = compute_metrics([detail("a", 0, 1, 0)], ["a", "b"], k=k, strategy=strategy)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 20_000_000  # bytes
    assert metrics.coverage.missing == (2 * k - 3 if strategy == "avg" else k)
    assert metrics.coverage.missing_attempts[-1].indexes == tuple(range(1, 101))
    assert classes_sum_to_planned(metrics)
    if strategy == "avg":
        assert by_name(metrics)["pass@10"].planned.value == pytest.approx(10 / k / 2)
        assert metrics.headline.value == pytest.approx(1 / k / 2)


# Scalars


def test_a_scalar_run_has_means_and_a_t_interval():
    details = [detail(f"t{n}", value) for n, value in enumerate((1.0, 2.0, 3.0, 4.0))]
    ids = [d.task_id for d in details]
    metrics = compute_metrics(details, ids, primary="score")
    assert [m.name for m in metrics.metrics] == ["native@1"]
    assert metrics.headline.value == 2.5
    assert metrics.headline.interval95 == pytest.approx((0.445739, 4.554261), abs=1e-6)
    assert metrics.headline.interval_method == "Student's t over tasks"
    assert metrics.outcomes.scored == 4
    assert metrics.outcomes.correct is None
    assert classes_sum_to_planned(metrics)


def test_a_scalar_run_with_k_has_only_the_mean():
    metrics = compute_metrics([detail("a", 0.5, 1.0)], ["a"], k=2, primary="score")
    assert [m.name for m in metrics.metrics] == ["avg@2"]
    assert metrics.headline.value == 0.75
    assert metrics.headline.standard_error is None
    assert metrics.headline.interval95 is None
    assert "2 tasks" in metrics.headline.note


def test_equal_values_have_no_interval_and_say_why():
    metrics = compute_metrics([detail("a", 0.5), detail("b", 0.5)], ["a", "b"], primary="score")
    assert metrics.headline.standard_error == 0.0
    assert metrics.headline.interval95 is None
    assert metrics.headline.note == "no interval: all tasks have the same value"


def test_a_score_of_zero_is_a_score():
    metrics = compute_metrics([detail("a", 0.0)], ["a"], primary="score")
    assert metrics.headline.value == 0.0
    assert metrics.coverage.fraction == 1.0


def test_a_scored_record_without_its_primary_is_refused():
    with pytest.raises(RequestError, match="a #1 is marked scored but has no `score`"):
        compute_metrics([detail("a", 1)], ["a"], primary="score")
