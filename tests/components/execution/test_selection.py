import os
import subprocess
import sys

import pytest

from agentcompass.components.contracts.errors import RequestError
from agentcompass.components.contracts.parameters import BenchmarkParameters
from agentcompass.components.contracts.task import Dataset
from agentcompass.components.execution.selection import select
from tests.standins.parts import sample

DATA = Dataset(
    samples=tuple(sample(f"task-{n}", "even" if n % 2 == 0 else "odd") for n in range(20)),
    source="test",
    content_hash="0",
)


def chosen(**parameters: object) -> list[str]:
    return [s.task.id for s in select(DATA, BenchmarkParameters.model_validate(parameters))]


def test_all_in_the_data_sets_order() -> None:
    assert chosen() == [f"task-{n}" for n in range(20)]


def test_exact_ids_in_the_users_order() -> None:
    assert chosen(sample_ids=["task-7", "task-3"]) == ["task-7", "task-3"]


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        ({"sample_ids": ["task-1", "zzz"]}, "'zzz'"),
        ({"sample_ids": ["TASK-1"]}, "did you mean 'task-1'"),
        ({"sample_ids": [" task-1 "]}, "did you mean 'task-1'"),
        ({"sample_ids": ["task-1", "task-1"]}, "more than once: 'task-1'"),
        ({"sample_ids": []}, "no task"),
        ({"categories": ["evn"]}, "did you mean 'even'"),
        ({"categories": []}, "no task"),
        ({"sample_ids": ["task-1"], "categories": ["even"]}, "no task"),
    ],
)
def test_a_wrong_selection_is_refused_by_name(parameters: dict[str, object], said: str) -> None:
    with pytest.raises(RequestError, match=said):
        chosen(**parameters)


def test_repeated_ids_in_the_data_are_refused() -> None:
    twice = DATA.model_copy(update={"samples": (*DATA.samples, DATA.samples[0])})
    with pytest.raises(RequestError, match="several tasks with the id 'task-0'"):
        select(twice, BenchmarkParameters())


def test_a_seed_gives_the_same_order_everywhere_and_zero_is_a_seed() -> None:
    zero, one = chosen(seed=0, limit=5), chosen(seed=1, limit=5)
    assert zero == chosen(seed=0, limit=5)
    assert len({tuple(zero), tuple(one), tuple(chosen(limit=5))}) == 3
    program = (
        "from tests.components.execution.test_selection import chosen;"
        "print(','.join(chosen(seed=0, limit=5)))"
    )
    for hash_seed in ("1", "2"):
        other = subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": "."},
            capture_output=True,
            text=True,
            check=True,
        )
        assert other.stdout.strip() == ",".join(zero)


def test_a_seeds_order_does_not_depend_on_other_tasks() -> None:
    ten = DATA.model_copy(update={"samples": DATA.samples[:10]})
    order = [s.task.id for s in select(ten, BenchmarkParameters(seed=3))]
    assert order == [name for name in chosen(seed=3) if name in order]
