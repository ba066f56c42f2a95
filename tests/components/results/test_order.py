"""Case C39: what is written does not depend on the order in which attempts ended."""

import json
import random

import pytest

from agentcompass.components.contracts.attempt import Detail, Note, Verdict
from agentcompass.components.contracts.errors import Code, Phase
from agentcompass.components.contracts.usage import Usage
from agentcompass.components.results.metrics import compute_metrics
from agentcompass.components.results.summary import headline_lines, summary_markdown
from agentcompass.components.results.writing import to_json
from tests.components.results.records import Outcome, detail, record

CODES = [Code.ENVIRONMENT_START, Code.MODEL_TIMEOUT, Code.GRADER_CRASHED, Code.GRADER_TIMEOUT]


def some_run(seed: int, k: int, scalar: bool) -> list[Detail]:
    source = random.Random(seed)
    details = []
    for number in range(source.randrange(1, 25)):
        outcomes: list[Outcome] = [
            source.choice([source.random() if scalar else source.randrange(2), *CODES[:2], None])
            for _ in range(k)
        ]
        task = detail(f"t{number}", *outcomes, category=source.choice(["x", "y", None]))
        attempts = [
            record(
                r.key.task_id,
                r.key.index,
                r.failure.code if r.failure else LOOKUP[scalar](r.value),
                usage=Usage(calls=1, cost_usd=source.random() / 3, output_tokens=7),
                notes=tuple(
                    Note(code=code, phase=Phase.RUN, message=f"{code} {source.random()}")
                    for code in source.sample(CODES, source.randrange(3))
                ),
            )
            for r in task.attempts
        ]
        details.append(task.model_copy(update={"attempts": tuple(attempts)}))
    return details


LOOKUP = {True: float, False: int}


def shuffled(details: list[Detail], source: random.Random) -> list[Detail]:
    mixed = [
        d.model_copy(update={"attempts": tuple(source.sample(d.attempts, len(d.attempts)))})
        for d in details
    ]
    source.shuffle(mixed)
    return mixed


@pytest.mark.parametrize("seed", range(12))
def test_shuffling_changes_no_byte(seed):
    source = random.Random(seed)
    k, scalar = source.choice([1, 2, 5]), source.random() < 0.4
    settings = {
        "k": k,
        "primary": "score" if scalar else "correct",
        "strategy": "avg" if scalar else source.choice(["avg", "avg", "pass"]),
        "unscored": source.choice(["zero", "exclude"]),
        "aggregation": source.choice(["micro", "macro"]),
    }
    details = some_run(seed, k, scalar)
    planned = {d.task_id: d.category for d in details} | {"never": "x"}
    first = compute_metrics(details, planned, **settings)
    facts = {"benchmark": "b", "command": "agentcompass run b h m"}
    for _ in range(3):
        order = dict(source.sample(list(planned.items()), len(planned)))
        again = compute_metrics(shuffled(details, source), order, **settings)
        assert to_json(again) == to_json(first)
        assert summary_markdown(again, facts) == summary_markdown(first, facts)
        assert headline_lines(again) == headline_lines(first)


@pytest.mark.parametrize("seed", range(12))
def test_the_numbers_are_strict_json_and_agree_with_each_other(seed):
    k = random.Random(seed).choice([1, 3])
    details = some_run(seed, k, scalar=False)
    metrics = compute_metrics(details, {d.task_id: d.category for d in details}, k=k)

    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    json.loads(to_json(metrics), parse_constant=refuse)
    outcomes, coverage = metrics.outcomes, metrics.coverage
    assert coverage.planned_attempts == len(details) * k
    assert outcomes.correct + outcomes.incorrect == coverage.scored
    assert sum(outcomes.unscored.values()) == coverage.unscored
    assert sum(metrics.failures_by_owner.values()) == coverage.unscored
    assert sum(f.attempts for f in metrics.failures) == coverage.unscored
    assert (
        coverage.scored + coverage.unscored + coverage.skipped + coverage.missing
        == coverage.planned_attempts
    )
    if metrics.headline.value is not None:
        assert metrics.headline.value == pytest.approx(outcomes.correct / (len(details) * k))
    for metric in metrics.metrics:
        for found in (metric.planned, metric.scored):
            if found.interval95:
                assert found.interval95[0] <= found.value <= found.interval95[1]


def test_a_nan_cannot_enter_a_record():
    with pytest.raises(ValueError, match="finite"):
        Verdict(score=float("nan"))
    with pytest.raises(ValueError, match="finite"):
        Verdict(score=1.0, metrics={"m": float("inf")})
