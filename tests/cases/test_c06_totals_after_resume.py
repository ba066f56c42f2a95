"""A run that was stopped and resumed, twice, tells the same totals as one that was not (C06)."""

import asyncio
import json
from pathlib import Path
from typing import Any

from agentcompass.components.contracts.errors import Code
from tests.cases.rig import Ran, UnderWay, Watch, ask, measure
from tests.cases.toy import Toy, number, put, shell, submit
from tests.standins.model_endpoint import ModelServer
from tests.standins.model_script import Reply, RequestInfo, Usage

AGENT = "tool_agent"
TIMES = ("started_at", "ended_at", "times")
MODEL = {"prices": {"input": 2.0, "output": 10.0}}


class Endpoint:
    """Task 2 is cut off once and makes a call without arguments, task 4 is refused; from `held`
    on, agents never end: what they are at when the run stops is lost."""

    def __init__(self) -> None:
        self.held = 99

    def __call__(self, request: RequestInfo) -> Reply:
        task = number(request)
        if task >= self.held:
            return shell(AGENT, "sleep 600")
        if task == 4:
            return Reply(status=400, text="no such thing")
        moves = [put(AGENT, task), submit(AGENT)]
        if task == 2:
            broken = Reply(tool_calls=({"name": "shell", "arguments": '{"command": "ls'},))
            moves = [Reply(text="I will", finish_reason="length"), broken, *moves]
        reply = moves[min(request.step, len(moves) - 1)]
        return Reply(**{**vars(reply), "usage": Usage(input=100 * task, output=10 + task)})


def until_ended(count: int) -> Watch:
    async def watch(run: UnderWay) -> None:
        while len(run.on_disk()) < count or run.progress.running == 0:
            await asyncio.sleep(0.02)
        run.stop.set()

    return watch


def totals(ran: Ran) -> dict[str, Any]:
    """All numbers of a run but its times."""
    return ran.metrics.model_dump(mode="json", exclude=set(TIMES))


def attempts(ran: Ran) -> dict[str, Any]:
    left_out = {"key": {"physical"}, "origin": True, **dict.fromkeys(TIMES, True)}
    return {
        name: record.model_dump(mode="json", exclude=left_out)
        for name, record in ran.records().items()
    }


def findings(ran: Ran, analyzer: str) -> list[tuple[str, str]]:
    report = json.loads((ran.folder / "analysis" / f"{analyzer}.json").read_bytes())
    return [(one["task_id"], one["kind"]) for one in report["findings"]]


def test_totals_are_those_of_a_run_that_was_never_stopped(tmp_path: Path) -> None:
    endpoint = Endpoint()
    with ModelServer(endpoint) as server:

        def go(watch: Watch | None = None, reuse: Ran | None = None) -> Ran:
            request = ask(
                tmp_path, "quickstart", AGENT, server.base_url, model_params=MODEL,
                task_concurrency=1,
            )  # fmt: skip
            return measure(request, Toy(5), watch=watch, reuse=reuse)

        whole = go()
        endpoint.held = 3
        first = go(until_ended(2))
        endpoint.held = 5
        second = go(until_ended(4), first)
        endpoint.held = 99
        asked = len(server.requests)
        third = go(None, second)
        assert {number(request) for request in server.requests[asked:]} == {4, 5}

    assert first.ending == second.ending == "interrupted"
    assert second.metrics.coverage.scored == 3
    assert totals(third) == totals(whole)
    assert attempts(third) == attempts(whole)
    usage = whole.metrics.usage
    assert (usage.input_tokens, usage.output_tokens) == (2600, 2 * 11 + 4 * 12 + 2 * 13 + 2 * 15)
    assert usage.cost_usd is not None
    assert round(usage.cost_usd, 9) == round((2600 * 2 + 126 * 10) / 1e6, 9)
    assert [count.code for count in whole.metrics.failures] == [Code.MODEL_BAD_REQUEST]
    for name in ("truncation", "malformed_calls", "failures", "usage"):
        assert findings(third, name) == findings(whole, name)
    assert len(findings(whole, "truncation")) == len(findings(whole, "malformed_calls")) == 1
