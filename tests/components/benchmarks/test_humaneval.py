import asyncio
import gzip
import json
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest

from agentcompass.components.benchmarks.humaneval import COMPONENT, HumanEval, HumanEvalParameters
from agentcompass.components.contracts.errors import AgentCompassError, Code, RequestError
from agentcompass.components.contracts.protocols import Benchmark
from agentcompass.components.contracts.sandbox import Environment
from agentcompass.components.contracts.task import Sample
from tests.components.benchmarks.sandboxes import path_with, sandbox
from tests.conformance.benchmark import BenchmarkConformance, MemoryDesk, Tried, attempt

ROWS = [
    {
        "task_id": "Made/0",
        "prompt": "from typing import List\n\n\ndef evens(numbers: List[int]) -> List[int]:\n"
        '    """The even ones.\n    >>> evens([1, 2])\n    [2]\n    """\n',
        "entry_point": "evens",
        "canonical_solution": "    return [n for n in numbers if n % 2 == 0]\n",
        "test": "\n\nMETADATA = {}\n\n\ndef check(candidate):\n"
        "    assert candidate([1, 2, 3, 4]) == [2, 4]\n    assert candidate([]) == []\n",
    },
    {
        "task_id": "Made/1",
        "prompt": "import math\n\n\ndef poly(xs: list, x: float):\n"
        "    return sum(c * math.pow(x, i) for i, c in enumerate(xs))\n\n\ndef root(xs: list):\n"
        '    """x with poly(xs, x) = 0 for a straight line {a} + {b}x."""\n',
        "entry_point": "root",
        "canonical_solution": "    return -xs[0] / xs[1]\n",
        "test": "def check(candidate):\n    import random\n    rng = random.Random(1)\n"
        "    for _ in range(50):\n        xs = [rng.randint(-9, 9), rng.randint(1, 9)]\n"
        "        assert abs(poly(xs, candidate(xs.copy()))) < 1e-4\n",
    },
]


def benchmark(folder: Path, **options: Any) -> HumanEval:
    path = folder / "rows.jsonl.gz"
    path.write_bytes(gzip.compress("".join(json.dumps(row) + "\n" for row in ROWS).encode()))
    return HumanEval(HumanEvalParameters(data_path=str(path), **options))


class TestHumanEval(BenchmarkConformance):
    component = COMPONENT

    def sandbox(self) -> AbstractAsyncContextManager[Environment]:
        return sandbox()

    def loaded(self, data_dir: Path) -> tuple[Benchmark, tuple[Sample, ...]]:
        made = benchmark(data_dir)
        return made, made.load(data_dir).samples

    def secrets(self, benchmark: Benchmark, sample: Sample) -> list[str]:
        key = sample.answer_key.value
        return [json.dumps(key[name])[1:-1] for name in ("canonical_solution", "test")]


def tried(folder: Path, answer: str | None, index: int = 0, **options: Any) -> Tried:
    made = benchmark(folder, **options)
    return asyncio.run(attempt(made, made.load(folder).samples[index], sandbox, answer=answer))


def test_the_tasks_are_those_of_the_file(tmp_path: Path) -> None:
    samples = benchmark(tmp_path).load(tmp_path).samples
    assert [s.task.id for s in samples] == ["Made/0", "Made/1"]
    assert [s.task.category for s in samples] == [None, None]
    assert ROWS[1]["prompt"] in samples[1].task.instruction
    assert "{a} + {b}x" in samples[1].task.instruction


def test_imports_and_helpers_of_the_prompt_are_there(tmp_path: Path) -> None:
    code = "```python\ndef evens(ns: List[int]):\n    return [n for n in ns if not n % 2]\n```"
    assert tried(tmp_path, code).verdict.correct is True
    code = "```python\ndef root(xs):\n    assert poly([1], 5) == 1\n    return -xs[0] / xs[1]\n```"
    assert tried(tmp_path, code, 1).verdict.correct is True


def test_a_helper_of_the_tests_cannot_be_bent(tmp_path: Path) -> None:
    code = "```python\ndef poly(xs, x):\n    return 0\n\ndef root(xs):\n    return 99.5\n```"
    assert tried(tmp_path, code, 1).verdict.correct is False


def test_endless_code_is_incorrect(tmp_path: Path) -> None:
    code = "```python\ndef evens(numbers):\n    while True:\n        pass\n```"
    verdict = tried(tmp_path, code, test_timeout_seconds=1).verdict
    assert verdict.correct is False
    assert "over its time" in verdict.evidence[0].text


def test_an_answer_without_code_is_incorrect_and_says_why(tmp_path: Path) -> None:
    verdict = tried(tmp_path, "I cannot do that.").verdict
    assert verdict.correct is False
    assert "no code that defines evens" in verdict.evidence[0].text


def test_a_solution_file_stands_in_for_an_answer_without_code(tmp_path: Path) -> None:
    made = benchmark(tmp_path)
    sample = made.load(tmp_path).samples[0]
    right, wrong = (
        "def evens(n):\n    return [x for x in n if x % 2 == 0]\n",
        "def evens(n):\n    return n\n",
    )

    def run(answer: str | None, file: str) -> bool | None:
        async def act(env: Environment) -> None:
            await env.write_file("solution.py", file.encode())

        return asyncio.run(attempt(made, sample, sandbox, act, answer)).verdict.correct

    assert run(None, right) is True
    assert run("It is in solution.py.", right) is True
    use = "```python\nfrom solution import evens\nprint(evens([1, 2]))\n```"
    assert run(f"It is in solution.py. Use it so:\n{use}", right) is True
    assert run(f"```python\n{wrong}```", right) is False
    assert run(None, "\ufeff# \ud83d\n".encode("utf-8", "replace").decode() + right) is True


def test_the_hash_covers_prompt_and_tests(tmp_path: Path) -> None:
    [first, _] = benchmark(tmp_path).load(tmp_path).samples
    for name in ("prompt", "test", "canonical_solution"):
        changed = tmp_path / f"{name}.jsonl"
        changed.write_text(json.dumps({**ROWS[0], name: ROWS[0][name] + "\n# x"}) + "\n")
        [other] = HumanEval(HumanEvalParameters(data_path=str(changed))).load(tmp_path).samples
        assert other.content_hash != first.content_hash
        assert other.task.id == first.task.id


def test_an_id_that_stands_there_twice_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "twice.jsonl"
    path.write_text(f"{json.dumps(ROWS[0])}\n{json.dumps(ROWS[0])}\n")
    with pytest.raises(RequestError, match=r"twice.jsonl, line 2: .*'Made/0' stands there twice"):
        HumanEval(HumanEvalParameters(data_path=str(path))).load(tmp_path)


def test_without_python_there_is_no_score(tmp_path: Path) -> None:
    made = benchmark(tmp_path)
    sample = made.load(tmp_path).samples[0]
    variables = path_with(tmp_path / "bin", "sh")
    answer = made.solution(sample).answer

    async def run() -> None:
        submitted = await attempt(made, sample, sandbox, answer=answer)
        async with sandbox(variables) as env:
            await made.verify(sample, submitted.submission, env, MemoryDesk())

    with pytest.raises(AgentCompassError, match="python3") as failed:
        asyncio.run(run())
    assert failed.value.code is Code.GRADER_CRASHED
