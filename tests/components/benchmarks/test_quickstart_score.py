import asyncio
from contextlib import AbstractAsyncContextManager
from pathlib import Path

from agentcompass.components.benchmarks.quickstart_score import (
    COMPONENT,
    QuickstartScore,
    QuickstartScoreParameters,
)
from agentcompass.components.contracts.sandbox import Environment
from tests.components.benchmarks.sandboxes import sandbox
from tests.conformance.benchmark import BenchmarkConformance, attempt

BENCHMARK = QuickstartScore(QuickstartScoreParameters())
SAMPLES = {sample.task.id: sample for sample in BENCHMARK.load(Path()).samples}


class TestQuickstartScore(BenchmarkConformance):
    component = COMPONENT

    def sandbox(self) -> AbstractAsyncContextManager[Environment]:
        return sandbox()


def score(task_id: str, files: dict[str, str]) -> float | None:
    async def act(env: Environment) -> None:
        for path, text in files.items():
            await env.write_file(path, text.encode())

    return asyncio.run(attempt(BENCHMARK, SAMPLES[task_id], sandbox, act)).verdict.score


def test_an_unrelated_change_scores_0_everywhere() -> None:
    for task_id in SAMPLES:
        assert score(task_id, {"unrelated.txt": "x"}) == 0, task_id


def test_half_a_report_is_worth_its_share() -> None:
    assert score("sales-report", {"report.json": '{"rows": 48, "revenue": 1}'}) == 1 / 6
    assert score("sales-report", {"report.json": "{"}) == 0


def test_half_a_calculator_is_worth_its_share() -> None:
    code = "def evaluate(text):\n    return sum(map(float, text.split('+')))\n"
    assert 0 <= score("calculator", {"calc.py": code}) < 0.5  # type: ignore[operator]


def test_a_wasteful_plan_scores_less_and_a_wrong_one_nothing() -> None:
    items = [f"item-{number:02d}" for number in range(1, 28)]
    assert score("pack-boxes", {"plan.txt": "\n".join(items)}) == 9 / 27
    assert score("pack-boxes", {"plan.txt": "\n".join(items[1:])}) == 0
    assert score("pack-boxes", {"plan.txt": " ".join(items)}) == 0
    assert score("pack-boxes", {"plan.txt": "\n".join([*items, items[0]])}) == 0


def test_one_label_for_all_scores_nothing() -> None:
    for label in ("refund", "other"):
        lines = "".join(f"{number:02d} {label}\n" for number in range(1, 13))
        assert score("label-messages", {"labels.txt": lines}) == 0


def test_a_longer_tour_scores_less() -> None:
    value = score("shortest-tour", {"tour.txt": "A B C D E F G H I J"})
    assert value is not None
    assert 0 < value < 0.5
    assert score("shortest-tour", {"tour.txt": "A B C"}) == 0
