"""An endpoint that takes a request and then says nothing, or next to nothing (C17)."""

import asyncio
import threading
import time
from pathlib import Path

import pytest

from tests.cases.rig import UnderWay, ask, measure
from tests.cases.toy import AGENTS, Toy, number, put, submit
from tests.standins.model_endpoint import ModelServer
from tests.standins.model_script import Reply, RequestInfo

ODD = {
    3: Reply(hang=True),
    4: Reply(text="half an answer", stall=True),
    5: Reply(drip_seconds=0.3),
}
SILENT = ("toy-3 #1", "toy-4 #1", "toy-5 #1")


def run(folder: Path, harness: str, model_params: dict[str, object], seconds: float) -> float:
    """Five tasks; 3 to 5 meet the odd endpoint in mid-conversation. Seconds until all ended."""
    early: set[str] = set()

    async def watch(run: UnderWay) -> None:
        end = time.monotonic() + 20
        while not {"toy-1", "toy-2"} <= run.on_disk() and time.monotonic() < end:
            await asyncio.sleep(0.05)
        early.update(run.on_disk())

    def answer(request: RequestInfo) -> Reply:
        task = number(request)
        if request.step == 0:
            return put(harness, task)
        return ODD.get(task, submit(harness))

    with ModelServer(answer) as endpoint:
        request = ask(
            folder,
            "quickstart",
            harness,
            endpoint.base_url,
            model_params=model_params,
            run_timeout_seconds=seconds,
            finalization_grace_seconds=2,
        )
        benchmark = Toy(5)
        ran = measure(request, benchmark, watch=watch)
        patience = time.monotonic() + 5
        while endpoint.open_connections and time.monotonic() < patience:
            time.sleep(0.05)
        assert endpoint.open_connections == 0
        asked = {n: sum(number(r) == n for r in endpoint.requests) for n in range(1, 6)}
    assert early == {"toy-1", "toy-2"}  # their records did not wait for the silent ones
    assert asked == dict.fromkeys(range(1, 6), 2)
    assert ran.codes() == {
        "toy-1 #1": None,
        "toy-2 #1": None,
        **dict.fromkeys(SILENT, "model.timeout"),
    }
    assert sorted(benchmark.verified) == ["toy-1", "toy-2"]
    assert (ran.metrics.headline.value, ran.metrics.metrics[0].scored.value) == (0.4, 1.0)
    assert ran.metrics.failures_by_owner == {"model": 3}
    for silent in ("toy-3", "toy-4", "toy-5"):  # what was done before is kept
        assert ran.steps(silent)[-1].tool_calls
    assert not [t for t in threading.enumerate() if t.name == "mini-swe-agent"]
    return ran.seconds


@pytest.mark.parametrize("harness", AGENTS)
def test_the_phase_deadline_ends_a_call_under_way(tmp_path: Path, harness: str) -> None:
    assert run(tmp_path, harness, {}, seconds=5) < 20


def test_each_call_has_a_time_of_its_own_long_before_the_phase_deadline(tmp_path: Path) -> None:
    limits: dict[str, object] = {"timeout": 2, "max_retry_seconds": 0}
    assert run(tmp_path, "tool_agent", limits, seconds=600) < 15
