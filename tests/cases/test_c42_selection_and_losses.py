"""A wrong selection spends nothing; what a run lost is counted, named, in its exit code (C42)."""

import asyncio
import json
from pathlib import Path

import psutil
import pytest

from agentcompass.cli import main
from agentcompass.components.configuration.json_value import read_object
from agentcompass.components.contracts.progress import Outcome
from tests.cases.rig import Ran, UnderWay, ask, measure
from tests.cases.toy import Toy, number, put, shell, submit
from tests.standins.model_endpoint import ModelServer
from tests.standins.model_script import Reply, RequestInfo

IDS = ("stock-value", "stale-cache", "pagination")


@pytest.mark.parametrize(
    ("selection", "said"),
    [
        ({"sample_ids": ["stock-value", "zzz"]}, "'zzz'"),
        ({"sample_ids": ["stock-valu"]}, "'stock-value'"),
        ({"sample_ids": ["Stock-Value"]}, "'stock-value'"),
        ({"sample_ids": [" stock-value "]}, "'stock-value'"),
        ({"sample_ids": ["stock-value\r"]}, "'stock-value'"),
        ({"sample_ids": ["stock-value", "stale-cache", "stock-value"]}, "more than once"),
        ({"sample_ids": []}, "no task"),
        ({"sample_ids": "stock-value"}, "sample_ids"),
        ({"categories": ["cod"]}, "'code'"),
        ({"sample_ids": ["stock-value"], "categories": ["code"]}, "no task"),
        ({"limit": 0}, "limit"),
    ],
)
def test_a_wrong_selection_is_refused_with_what_is_near_and_asks_no_model(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    selection: dict[str, object],
    said: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    with ModelServer(lambda request: Reply(text="pong")) as endpoint:
        words = ["run", "quickstart", "openai_chat", "m", "--model-api-key", "none"]
        words += ["--model-base-url", endpoint.base_url]
        assert main.answer([*words, "--benchmark-params", json.dumps(selection)]) == 2
        assert endpoint.requests == []
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.startswith("agentcompass: benchmark-params")
    assert told.err.count("\n") == 1
    assert said in told.err
    assert list(tmp_path.iterdir()) == []


def test_ids_from_a_file_with_crlf_are_those_ids(tmp_path: Path) -> None:
    lines = ["sample_ids:", *(f"  - {name}" for name in IDS)]
    (tmp_path / "ids.yaml").write_bytes("\r\n".join(lines).encode())
    params = read_object(f"@{tmp_path / 'ids.yaml'}", "benchmark-params")
    ran = measure(ask(tmp_path, "quickstart", "idle", benchmark_params=params))
    assert [sample.task.id for sample in ran.samples] == list(IDS)


def exit_code(ran: Ran) -> int:
    """As `flows` make it of a run that ended like this one."""
    coverage = ran.metrics.coverage
    return Outcome(
        run_dir="",
        state=ran.ending or "failed",
        planned=coverage.planned_attempts,
        scored=coverage.scored,
        skipped=coverage.skipped,
    ).exit_code


def test_a_run_cut_off_after_four_of_five_says_so_and_names_the_fifth(tmp_path: Path) -> None:
    async def watch(run: UnderWay) -> None:
        while run.progress.scored < 4:
            await asyncio.sleep(0.02)
        run.stop.set()

    def answer(request: RequestInfo) -> Reply:
        task = number(request)
        if task == 3:
            return shell("tool_agent", "sleep 600")
        return (put("tool_agent", task), submit("tool_agent"))[min(request.step, 1)]

    with ModelServer(answer) as endpoint:
        request = ask(tmp_path, "quickstart", "tool_agent", endpoint.base_url)
        ran = measure(request, Toy(5), watch=watch)
    assert ran.ending == "interrupted"
    assert exit_code(ran) == 130
    assert "4 of 5 attempts scored" in ran.summary
    assert "toy-3 #1" in ran.summary

    # As after `kill -9`: of the attempt under way nothing is left.
    ran.store.folder.detail("toy-3").unlink(missing_ok=True)
    metrics = ran.conclude()
    assert (metrics.coverage.planned_tasks, metrics.coverage.scored) == (5, 4)
    assert [m.task_id for m in metrics.coverage.missing_attempts] == ["toy-3"]
    assert (metrics.headline.value, metrics.metrics[0].scored.value) == (0.8, 1.0)
    assert "4 of 5 attempts scored" in ran.summary
    assert "1 attempt (counted as 0) never ended: toy-3 #1" in ran.summary


def test_an_attempt_whose_sandbox_is_killed_is_lost_and_named(tmp_path: Path) -> None:
    """`kill -9` of the process that keeps one of five sandboxes."""

    async def watch(run: UnderWay) -> None:
        while not (keepers := keepers_of(tmp_path, "toy-3")):
            await asyncio.sleep(0.02)
        for keeper in keepers:
            keeper.kill()

    def answer(request: RequestInfo) -> Reply:
        task = number(request)
        if task == 3:
            return shell("tool_agent", "echo here > started; sleep 600")
        return (put("tool_agent", task), submit("tool_agent"))[min(request.step, 1)]

    with ModelServer(answer) as endpoint:
        request = ask(tmp_path, "quickstart", "tool_agent", endpoint.base_url)
        ran = measure(request, Toy(5), watch=watch)
    assert ran.ending == "finished"
    assert ran.codes() == {
        **{f"toy-{n} #1": None for n in range(1, 6)},
        "toy-3 #1": "environment.lost",
    }
    assert "4 of 5 attempts scored" in ran.summary
    assert "environment.lost" in ran.summary
    assert "toy-3 #1" in ran.summary
    assert ran.metrics.failures_by_owner == {"environment": 1}
    assert exit_code(ran) == 1


def keepers_of(folder: Path, task_id: str) -> list[psutil.Process]:
    """The children of ours that keep the sandbox of a task whose agent is at work."""
    roots = [path.parent.parent for path in folder.glob(f"boxes-*/*{task_id}*/*/started")]
    return [
        child
        for child in psutil.Process().children()
        if any(str(root) in " ".join(child.cmdline()) for root in roots)
    ]
