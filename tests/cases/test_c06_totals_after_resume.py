"""A run that was stopped and resumed, twice, tells the same totals as one that was not (C06)."""

import asyncio
import json
from pathlib import Path
from typing import Any

from agentcompass.components.contracts.errors import Code
from tests.cases.rig import Ran, UnderWay, Watch, ask, measure
from tests.cases.toy import Toy

TIMES = {"started_at", "ended_at", "times"}


def script(folder: Path) -> dict[str, Any]:
    """Task 2 is cut off once and makes a broken call, task 4 is refused. Tasks 3 and 5 are busy
    until a file of their name appears in `folder`: what they are at when the run stops is lost."""

    def reply(task: int, **said: Any) -> dict[str, Any]:
        return {**said, "usage": {"input": 100 * task, "output": 10 + task}}

    def call(task: int, name: str, arguments: Any) -> dict[str, Any]:
        return reply(task, tool_calls=[{"name": name, "arguments": arguments}])

    def moves(task: int) -> list[dict[str, Any]]:
        wait = f"until [ -e {folder / str(task)} ]; do sleep 0.1; done; " if task in (3, 5) else ""
        put = call(task, "shell", {"command": f"{wait}echo {task} > answer.txt"})
        return [put, call(task, "submit", {"answer": "done"})]

    odd = [reply(2, content="I will", finish_reason="length"), call(2, "shell", '{"command": "ls')]
    tasks = {f"toy-{task}": moves(task) for task in (1, 3, 5)}
    refused = [{"error": {"code": "model.bad_request"}}]
    return {"tasks": {**tasks, "toy-2": [*odd, *moves(2)], "toy-4": refused}}


def once(recorded: int) -> Watch:
    """Stop the run when so many attempts are on disk and another one is at work."""

    async def watch(run: UnderWay) -> None:
        while len(run.on_disk()) < recorded or run.progress.running == 0:
            await asyncio.sleep(0.02)
        run.stop.set()

    return watch


def totals(ran: Ran) -> dict[str, Any]:
    """All numbers of a run but its times and where they come from."""
    return ran.metrics.model_dump(mode="json", exclude={*TIMES, "taken_over", "own_usage"})


def attempts(ran: Ran) -> dict[str, Any]:
    found = {name: record.model_dump(mode="json") for name, record in ran.records().items()}
    return {
        name: {field: v for field, v in record.items() if field not in {*TIMES, "origin"}}
        for name, record in found.items()
    }


def findings(ran: Ran, analyzer: str) -> list[tuple[str, str]]:
    report = json.loads((ran.folder / "analysis" / f"{analyzer}.json").read_bytes())
    return [(one["task_id"], one["kind"]) for one in report["findings"]]


def test_totals_are_those_of_a_run_that_was_never_stopped(tmp_path: Path) -> None:
    gates = tmp_path / "gates"

    def go(watch: Watch | None = None, reuse: Ran | None = None) -> Ran:
        params = {"script": script(gates), "prices": {"input": 2.0, "output": 10.0}}
        request = ask(
            tmp_path,
            *("quickstart", "tool_agent"),
            model="scripted",
            model_params=params,
            task_concurrency=1,
        )
        return measure(request, Toy(5), watch=watch, reuse=reuse)

    gates.mkdir()
    first = go(once(2))
    (gates / "3").touch()
    second = go(once(4), first)
    (gates / "5").touch()
    third = go(None, second)
    whole = go()

    assert first.ending == second.ending == "interrupted"
    assert (first.metrics.coverage.scored, second.metrics.coverage.scored) == (2, 3)
    again = {name for name, record in third.records().items() if record.origin is None}
    assert again == {"toy-4 #1", "toy-5 #1"}

    assert [one.attempts for one in third.metrics.taken_over] == [2, 1]
    assert totals(third) == totals(whole)
    assert attempts(third) == attempts(whole)
    usage = whole.metrics.usage
    assert (usage.input_tokens, usage.output_tokens) == (2600, 2 * 11 + 4 * 12 + 2 * 13 + 2 * 15)
    assert usage.cost_usd is not None
    assert [count.code for count in whole.metrics.failures] == [Code.MODEL_BAD_REQUEST]
    for name in ("truncation", "malformed_calls", "failures", "usage"):
        assert findings(third, name) == findings(whole, name)
    assert findings(whole, "truncation")[0][0] == "toy-2"
    assert findings(whole, "malformed_calls")[0][0] == "toy-2"
