import asyncio
import json
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest

from agentcompass.components.benchmarks.gsm8k import COMPONENT, Gsm8k, Gsm8kParameters
from agentcompass.components.contracts.errors import RequestError
from agentcompass.components.contracts.protocols import Benchmark
from agentcompass.components.contracts.sandbox import Environment
from agentcompass.components.contracts.task import Dataset, Sample
from tests.components.benchmarks.sandboxes import sandbox
from tests.conformance.benchmark import BenchmarkConformance, attempt

ROWS = [
    {"question": "Ann has 3 pears and gets 4 more. How many?", "answer": "3+4=<<3+4=7>>7\n#### 7"},
    {"question": "A car costs $12,000 and 10% more. How much?", "answer": "So\n#### 13,200"},
    {"question": "From 3 degrees it falls by 8. What is it?", "answer": "3-8=-5\n#### -5"},
]


def written(folder: Path, rows: list[dict[str, str]]) -> str:
    path = folder / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def loaded(folder: Path, rows: list[dict[str, str]]) -> Dataset:
    return Gsm8k(Gsm8kParameters(data_path=written(folder, rows))).load(folder)


class TestGsm8k(BenchmarkConformance):
    component = COMPONENT

    def sandbox(self) -> AbstractAsyncContextManager[Environment]:
        return sandbox()

    def loaded(self, data_dir: Path) -> tuple[Benchmark, tuple[Sample, ...]]:
        benchmark = Gsm8k(Gsm8kParameters(data_path=written(data_dir, ROWS)))
        return benchmark, benchmark.load(data_dir).samples


def test_ids_follow_the_question_whatever_its_place(tmp_path: Path) -> None:
    first = {s.task.instruction: s.task.id for s in loaded(tmp_path, ROWS).samples}
    again = {s.task.instruction: s.task.id for s in loaded(tmp_path, ROWS[::-1][:2]).samples}
    assert again.items() <= first.items()
    assert all(task_id.startswith("gsm8k-") and len(task_id) == 16 for task_id in first.values())


def test_equal_questions_get_ids_of_their_own(tmp_path: Path) -> None:
    ids = [s.task.id for s in loaded(tmp_path, [ROWS[0], ROWS[1], ROWS[0]]).samples]
    assert ids[2] == ids[0] + "-2"


def test_the_hash_changes_with_question_and_gold(tmp_path: Path) -> None:
    [first] = loaded(tmp_path, [ROWS[0]]).samples
    [other] = loaded(tmp_path, [{**ROWS[0], "answer": "#### 8"}]).samples
    assert first.task.id == other.task.id
    assert first.content_hash != other.content_hash


def test_the_answer_may_be_worked_out_in_any_spelling(tmp_path: Path) -> None:
    benchmark = Gsm8k(Gsm8kParameters(data_path=written(tmp_path, ROWS)))
    car = benchmark.load(tmp_path).samples[1]
    for answer, correct in (
        ("It costs $13,200.00", True),
        ("#### 13200", True),
        ("\\boxed{13{,}200}", True),
        ("#### 13201", False),
        ("#### 132", False),
    ):
        tried = asyncio.run(attempt(benchmark, car, sandbox, answer=answer))
        assert tried.verdict.correct is correct, answer


def test_a_record_without_gold_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        RequestError, match=r"jsonl, line 1: column 'answer' has no number after ####"
    ):
        loaded(tmp_path, [{"question": "?", "answer": "seven"}])
