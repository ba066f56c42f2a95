import math

import pytest

from agentcompass.components.contracts.attempt import Note, Verdict
from agentcompass.components.contracts.errors import Code, Owner, Phase, RequestError
from agentcompass.components.contracts.usage import Usage
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


# Categories


def categories(aggregation: str) -> Metrics:
    details = [detail(f"a{n}", v, category="alg") for n, v in enumerate((1, 1, 1, 0, LOST))]
    details += [detail("g0", 0, category="geo"), detail("g1", 1, category="geo")]
    planned = {d.task_id: d.category for d in details} | {"n0": "new"}
    return compute_metrics(details, planned, aggregation=aggregation)


def test_micro_is_by_task_and_macro_by_category():
    micro, macro = categories("micro"), categories("macro")
    assert micro.headline.value == 4 / 8
    assert macro.headline.value == pytest.approx((3 / 5 + 1 / 2 + 0) / 3)
    assert by_name(micro)["native@1"].scored.value == 4 / 6
    assert by_name(macro)["native@1"].scored.value == pytest.approx((3 / 4 + 1 / 2) / 2)
    assert "categories" in macro.headline.definition
    assert macro.headline.note == "no standard error, no interval: some category has only 1 task"


def test_a_macro_mean_has_the_stratified_error():
    macro = by_name(categories("macro"))["native@1"].scored
    # alg 1,1,1,0: s² = .75/3 = .25, v = .0625; geo 0,1: s² = .5, v = .25.
    assert macro.standard_error == pytest.approx(math.sqrt(0.0625 + 0.25) / 2)
    assert macro.interval_method.startswith("Student's t over tasks within categories")


def test_every_category_has_the_same_numbers():
    alg, geo, new = categories("macro").categories
    assert [c.category for c in (alg, geo, new)] == ["alg", "geo", "new"]
    assert (alg.headline.value, alg.coverage.fraction) == (3 / 5, 4 / 5)
    assert alg.headline.interval95 == wilson(3, 5)
    assert alg.outcomes.unscored == {"environment.start": 1}
    assert geo.headline.value == 1 / 2
    assert new.headline.value is None
    assert new.outcomes.missing == 1


def test_tasks_without_category_are_a_group_of_their_own_only_beside_others():
    assert compute_metrics([detail("a", 1)], ["a"]).categories == ()
    mixed = compute_metrics([detail("a", 1), detail("b", 0, category="x")], ["a", "b"])
    assert [c.category for c in mixed.categories] == ["x", None]


# What else is counted


def test_other_observations_have_their_means():
    verdicts = {
        "a": [Verdict(correct=True, metrics={"lines": 10, "built": True})],
        "b": [Verdict(correct=False, metrics={"built": False}), Verdict(correct=True)],
        "c": [
            Verdict(correct=False, metrics={"lines": 20.0}),
            Verdict(correct=True, metrics={"lines": 40.0}),
        ],
    }
    details = [
        detail(task).model_copy(
            update={"attempts": tuple(record(task, n, 1, verdict=v) for n, v in enumerate(vs, 1))}
        )
        for task, vs in verdicts.items()
    ]
    built, lines = compute_metrics(details, list(verdicts), k=2).extra
    assert (built.name, built.value, built.n_tasks, built.n_attempts) == ("built", 0.5, 2, 2)
    assert (lines.name, lines.value, lines.n_tasks, lines.n_attempts) == ("lines", 20.0, 2, 3)
    assert lines.standard_error == pytest.approx(10.0)


def test_failures_and_warnings_are_counted_by_code_with_examples():
    step_limit = Note(code=Code.HARNESS_STEP_LIMIT, phase=Phase.RUN, message="30 steps\nmore")
    tampered = Note(code=Code.GRADER_TAMPERED, phase=Phase.SCORE, message="tests edited")
    noted = record(
        "a", 1, 0, notes=(step_limit, step_limit), verdict=Verdict(correct=False, notes=(tampered,))
    )
    details = [
        detail("a").model_copy(update={"attempts": (noted,)}),
        *(detail(f"x{n}", LOST) for n in range(4)),
        detail("y", Code.MODEL_RATE_LIMITED),
        detail("z", Code.GRADER_CRASHED),
    ]
    metrics = compute_metrics(details, [d.task_id for d in details])
    assert [(f.code.value, f.attempts) for f in metrics.failures] == [
        ("environment.start", 4),
        ("grader.crashed", 1),
        ("model.rate_limited", 1),
    ]
    first = metrics.failures[0]
    assert [e.task_id for e in first.examples] == ["x0", "x1", "x2"]
    assert first.examples[0].message == "environment.start on x0"
    assert metrics.failures_by_owner == {
        Owner.MODEL: 1,
        Owner.ENVIRONMENT: 4,
        Owner.GRADER: 1,
    }
    assert [(w.code.value, w.attempts) for w in metrics.warnings] == [
        ("grader.tampered", 1),
        ("harness.step_limit", 1),
    ]
    assert metrics.warnings[1].examples[0].message == "30 steps"
    assert metrics.headline.value == 0.0
    assert metrics.outcomes.incorrect == 1


def test_an_unscored_attempt_without_a_reason_is_our_own_fault():
    nameless = record("a", 1, LOST, failure=None)
    metrics = compute_metrics([detail("a").model_copy(update={"attempts": (nameless,)})], ["a"])
    assert metrics.failures_by_owner == {Owner.FRAMEWORK: 1}


def test_usage_and_times_are_sums_and_unknown_stays_unknown():
    details = [detail("a", 1, 0), detail("b", LOST, "skip")]
    metrics = compute_metrics(details, ["a", "b"], k=2)
    assert metrics.usage.calls == 6
    assert metrics.usage.input_tokens == 300
    assert metrics.usage.cached_input_tokens is None
    assert metrics.usage.cost_usd == pytest.approx(0.4)
    assert not metrics.cost_partial
    assert metrics.times.run_seconds == 60
    assert metrics.times.waiting_seconds == pytest.approx(0.4)
    assert metrics.times.score_seconds is None
    assert (metrics.ended_at - metrics.started_at).total_seconds() == 90


def test_a_cost_with_an_unknown_part_is_partial():
    unknown = record("b", 1, 1, usage=Usage(calls=3, unpriced_calls=3, uncounted_calls=1))
    other = detail("b").model_copy(update={"attempts": (unknown,)})
    metrics = compute_metrics([detail("a", 1), other], ["a", "b"])
    assert metrics.usage.cost_usd == pytest.approx(0.1)
    assert metrics.cost_partial
    assert metrics.tokens_partial
    alone = compute_metrics([other], ["b"])
    assert alone.usage.cost_usd is None
    assert not alone.cost_partial


# Details and plan


def test_a_task_that_was_not_planned_is_refused():
    with pytest.raises(RequestError, match="'phantom'"):
        compute_metrics([detail("phantom", 1)], ["a"])


def test_two_details_of_a_task_are_refused():
    with pytest.raises(RequestError, match="two details"):
        compute_metrics([detail("a", 1), detail("a", 0)], ["a"])
    with pytest.raises(RequestError, match="planned twice"):
        compute_metrics([], ["a", "a"])
