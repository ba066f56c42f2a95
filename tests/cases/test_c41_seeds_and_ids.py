"""A record keeps its id whatever the order, and a seed means one order everywhere (C41)."""

import json
import os
import random
import subprocess
import sys
from pathlib import Path

from agentcompass.components.benchmarks.gsm8k import COMPONENT
from agentcompass.components.execution.selection import select
from tests.cases.rig import Ran, ask, measure

ROWS = [{"question": f"What is {n} + {n}?", "answer": f"#### {2 * n}"} for n in range(20)]


def questions(path: Path, rows: list[dict[str, str]]) -> str:
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    return str(path)


def run(folder: Path, data: str, reuse: Ran | None = None, **selection: object) -> Ran:
    params = {"data_path": data, "limit": 5, **selection}
    ran = measure(ask(folder, "gsm8k", "oracle", benchmark_params=params), reuse=reuse)
    assert ran.metrics.headline.value == 1.0
    assert ran.metrics.coverage.planned_tasks == 5
    return ran


def texts(ran: Ran) -> dict[str, str]:
    """Task id → instruction, in the run's order, as they are on disk."""
    return {detail.task_id: detail.instruction for detail in ran.store.details()}


def test_seeds_choose_and_ids_stay(tmp_path: Path) -> None:
    data = questions(tmp_path / "questions.jsonl", ROWS)
    zero, zero_again = (texts(run(tmp_path, data, seed=0)) for _ in range(2))
    one, unset = texts(run(tmp_path, data, seed=1)), texts(run(tmp_path, data))
    assert list(zero.items()) == list(zero_again.items())
    assert len({tuple(chosen) for chosen in (zero, one, unset)}) == 3
    assert [f"What is {n} + {n}?" in text for n, text in enumerate(unset.values())] == [True] * 5

    # The same record is the same task in every run, and so in a file with another order.
    known: dict[str, str] = {}
    shuffled = random.Random(3).sample(ROWS, len(ROWS))
    other = questions(tmp_path / "shuffled.jsonl", shuffled)
    of_other = texts(run(tmp_path, other, seed=0))
    for chosen in (zero, one, unset, of_other):
        for task_id, text in chosen.items():
            assert known.setdefault(task_id, text) == text
    assert len(set(known.values())) == len(known)
    assert list(of_other.items()) == list(zero.items())


def test_another_seed_takes_over_exactly_the_overlap(tmp_path: Path) -> None:
    data = questions(tmp_path / "questions.jsonl", ROWS)
    first = run(tmp_path, data, seed=0)
    seed = next(s for s in range(1, 50) if 0 < len(overlap(first, tmp_path, data, s)) < 5)
    second = run(tmp_path, data, reuse=first, seed=seed)
    expected = {f"{task_id} #1" for task_id in overlap(first, tmp_path, data, seed)}
    before, after = first.records(), second.records()
    assert set(before) & set(after) == expected
    assert {name for name, record in after.items() if record.origin is not None} == expected
    for name in expected:
        assert after[name].ended_at == before[name].ended_at


def overlap(first: Ran, folder: Path, data: str, seed: int) -> set[str]:
    parameters = COMPONENT.parameters.model_validate({"data_path": data, "limit": 5, "seed": seed})
    chosen = select(COMPONENT.create(parameters).load(folder), parameters)
    return {sample.task.id for sample in chosen} & {s.task.id for s in first.samples}


PROGRAM = """
import json, sys
from pathlib import Path
from agentcompass.components.benchmarks.gsm8k import COMPONENT
from agentcompass.components.execution.selection import select
parameters = COMPONENT.parameters(data_path=sys.argv[1], limit=5, seed=0)
chosen = select(COMPONENT.create(parameters).load(Path()), parameters)
print(json.dumps([[s.task.id, s.task.instruction] for s in chosen]))
"""


def test_another_process_chooses_the_same(tmp_path: Path) -> None:
    data = questions(tmp_path / "questions.jsonl", ROWS)
    here = [list(item) for item in texts(run(tmp_path, data, seed=0)).items()]
    for hash_seed in ("1", "2"):
        there = subprocess.run(
            [sys.executable, "-c", PROGRAM, data],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            check=True,
        )
        assert json.loads(there.stdout) == here
