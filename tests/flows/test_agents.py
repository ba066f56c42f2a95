"""The two agents with tools solve quickstart for real: an endpoint sends them shell commands."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from agentcompass.components.benchmarks.quickstart import COMPONENT
from agentcompass.components.contracts.task import Sample, Solution
from tests.flows.program import agentcompass
from tests.standins.model_endpoint import ModelServer
from tests.standins.model_script import Reply

pytestmark = pytest.mark.usefixtures("prefect_home")

QUICKSTART = COMPONENT.create(COMPONENT.parameters())
SAMPLES: dict[str, Sample] = {s.task.id: s for s in QUICKSTART.load(Path()).samples}


def commands(solution: Solution) -> list[str]:
    """The known-good solution as the shell commands an agent would send."""
    written = [
        f"mkdir -p $(dirname {path}); echo {encoded(content)} | base64 -d > {path}"
        for path, content in solution.files.items()
    ]
    return [*written, *([solution.command] if solution.command else [])]


def encoded(content: bytes) -> str:
    return base64.b64encode(content).decode()


class Teacher:
    """Answers each conversation with the next step of its task's solution, or of a wrong one."""

    def __init__(self, harness: str, wrong: frozenset[str] = frozenset()) -> None:
        self._wrong = wrong
        self._shell = {"tool_agent": "shell", "mini_swe_agent": "bash"}[harness]
        self._submit = self._submit_tool if harness == "tool_agent" else self._submit_line

    def __call__(self, request: Any) -> Reply:
        sample = next(
            (s for s in SAMPLES.values() if s.task.instruction[:60] in request.first_user), None
        )
        if sample is None:
            return Reply(text="pong")  # preflight
        solution = QUICKSTART.solution(sample)
        answer, steps = solution.answer or "done", commands(solution)
        if sample.task.id in self._wrong:
            answer, steps = "ANSWER: nonsense", ["echo 'not a solution' > notes.txt"]
        if request.step < len(steps):
            return self._call(self._shell, {"command": steps[request.step]})
        return self._submit(answer)

    def _call(self, name: str, arguments: dict[str, str]) -> Reply:
        return Reply(text="Let me see.", tool_calls=({"name": name, "arguments": arguments},))

    def _submit_tool(self, answer: str) -> Reply:
        return self._call("submit", {"answer": answer})

    def _submit_line(self, answer: str) -> Reply:
        told = encoded(answer.encode())
        line = f"echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT; echo {told} | base64 -d"
        return self._call("bash", {"command": line})


def run(tmp_path: Path, harness: str, wrong: frozenset[str], *more: str) -> dict[str, Any]:
    with ModelServer(Teacher(harness, wrong)) as endpoint:
        words = ["run", "quickstart", harness, "teacher", "--json", "--model-api-key", "none"]
        ended = agentcompass(*words, "--model-base-url", endpoint.base_url, *more, cwd=tmp_path)
    assert ended.exit_code == 0, ended.stderr
    return ended.document


@pytest.mark.parametrize("harness", ["tool_agent", "mini_swe_agent"])
def test_real_commands_solve_every_task_and_a_wrong_script_none(
    tmp_path: Path, harness: str
) -> None:
    wrong = frozenset({"csv-quotes", "pagination", "stock-value"})
    document = run(tmp_path, harness, wrong, "--k", "2")
    failed = {
        json.loads(path.read_text())["task_id"]: [
            attempt["verdict"]["correct"] for attempt in json.loads(path.read_text())["attempts"]
        ]
        for path in Path(document["run_dir"]).glob("tasks/*/detail.json")
    }
    assert failed == {name: [name not in wrong] * 2 for name in SAMPLES}
    assert document["metrics"]["headline"]["value"] == pytest.approx(1 - 3 / len(SAMPLES))
    usage = document["metrics"]["usage"]
    assert usage["calls"] > 2 * len(SAMPLES)
    assert usage["cost_usd"] is None
    trajectory = next(Path(document["run_dir"]).glob("tasks/pagination/attempt-1/trajectory.json"))
    steps = json.loads(trajectory.read_text())["steps"]
    assert [s["source"] for s in steps][-1] == "agent"
    assert steps[-1]["metrics"]["prompt_tokens"] == 10


def test_prices_give_the_cost_and_a_limit_without_prices_is_refused(tmp_path: Path) -> None:
    """C28."""
    one = ["--benchmark-params", '{"sample_ids": ["stock-value"]}']
    prices = ["--model-params", '{"prices": {"input": 1000000, "output": 2000000}}']
    document = run(tmp_path, "tool_agent", frozenset(), *one, *prices)
    usage = document["metrics"]["usage"]
    assert usage["cost_usd"] == usage["input_tokens"] * 1.0 + usage["output_tokens"] * 2.0
    with ModelServer(Teacher("tool_agent")) as endpoint:
        words = ["run", "quickstart", "tool_agent", "teacher", "--model-api-key", "none"]
        words += ["--model-base-url", endpoint.base_url, "--harness-params", '{"cost_limit": 1}']
        ended = agentcompass(*words, cwd=tmp_path)
    assert ended.exit_code == 3
    assert "cost_limit" in ended.stderr
    assert "prices" in ended.stderr
