"""The SDK as a user's program calls it, each in a process of its own."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.usefixtures("prefect_home")


def program(folder: Path, text: str) -> Any:
    """What the program printed as JSON on its last line."""
    done = subprocess.run(
        [sys.executable, "-c", text],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_one_run_and_its_typed_result(tmp_path: Path) -> None:
    found = program(
        tmp_path,
        """
import json, logging, agentcompass
before = logging.getLogger().handlers[:]
heard = []
request = agentcompass.build_run_request(
    "quickstart", "oracle", "scripted", benchmark_params={"limit": 2}, k=2, results_dir="mine")
result = agentcompass.run(request, listen=heard.append)
print(json.dumps({
    "score": result.score, "coverage": result.coverage, "dir": str(result.run_dir),
    "tasks": [d.task_id for d in result.details()], "exit": result.outcome.exit_code,
    "heard": heard[-1].scored, "same logging": logging.getLogger().handlers == before,
}))
""",
    )
    assert (found["score"], found["coverage"], found["exit"], found["heard"]) == (1.0, 1.0, 0, 4)
    assert found["same logging"]
    assert len(found["tasks"]) == 2
    assert (Path(found["dir"]) / "summary.md").is_file()
    assert Path(found["dir"]).is_relative_to(tmp_path / "mine")


def test_two_runs_at_once_do_not_touch_each_other(tmp_path: Path) -> None:
    found = program(
        tmp_path,
        """
import asyncio, json, agentcompass

def asked(harness, folder, limit, at_once):
    return agentcompass.build_run_request(
        "quickstart", harness, "scripted", benchmark_params={"limit": limit},
        task_concurrency=at_once, results_dir=folder)

async def both():
    most = {"one": 0, "two": 0}
    def watch(name):
        def listen(progress):
            most[name] = max(most[name], progress.running)
        return listen
    results = await asyncio.gather(
        agentcompass.arun(asked("oracle", "one", 6, 1), listen=watch("one")),
        agentcompass.arun(asked("idle", "two", 4, 3), listen=watch("two")))
    return [[r.score, r.outcome.planned, str(r.run_dir)] for r in results], most

print(json.dumps(asyncio.run(both())))
""",
    )
    (one, two), most = found
    assert one[:2] == [1.0, 6]
    assert two[:2] == [0.0, 4]
    assert most["one"] <= 1
    assert most["two"] <= 3
    for mine, other, folder in ((one, two, "one"), (two, one, "two")):
        assert Path(mine[2]).is_relative_to(tmp_path / folder)
        log = (Path(mine[2]) / "logs" / "run.log").read_text(encoding="utf-8")
        assert mine[2] in log
        assert other[2] not in log


def test_what_is_wrong_is_an_exception_that_says_so(tmp_path: Path) -> None:
    found = program(
        tmp_path,
        """
import asyncio, json, agentcompass
from agentcompass.components.contracts.errors import PreflightRefused, RequestError
said = []
for make in (
    lambda: agentcompass.build_run_request("quickstart", "oracle", "scripted", task_concurency=1),
    lambda: agentcompass.run(agentcompass.build_run_request("quickstrat", "oracle", "scripted")),
    lambda: agentcompass.run(agentcompass.build_run_request("quickstart", "tool_agent", "m",
        model_base_url="http://127.0.0.1:9/v1", model_api_key="k")),
):
    try:
        make()
    except (PreflightRefused, RequestError) as error:
        said.append([type(error).__name__, str(error)])
async def inside():
    try:
        agentcompass.run(agentcompass.build_run_request("quickstart", "oracle", "scripted"))
    except RuntimeError as error:
        said.append(["RuntimeError", str(error)])
asyncio.run(inside())
print(json.dumps(said))
""",
    )
    assert [name for name, _ in found] == [
        "RequestError", "RequestError", "PreflightRefused", "RuntimeError",
    ]  # fmt: skip
    assert "did you mean 'task_concurrency'" in found[0][1]
    assert "quickstart" in found[1][1]
    assert "127.0.0.1:9" in found[2][1]
    assert "await agentcompass.arun" in found[3][1]


def test_a_cancelled_run_keeps_what_is_finished(tmp_path: Path) -> None:
    found = program(
        tmp_path,
        """
import asyncio, json, pathlib, agentcompass

async def main():
    request = agentcompass.build_run_request(
        "quickstart", "oracle", "scripted", task_concurrency=1, results_dir="r", run_id="x")
    enough = asyncio.Event()
    def listen(progress):
        if progress.scored >= 2:
            enough.set()
    running = asyncio.create_task(agentcompass.arun(request, listen=listen))
    await asyncio.wait_for(enough.wait(), 150)
    running.cancel()
    try:
        await running
    except asyncio.CancelledError:
        pass
asyncio.run(main())
(folder,) = pathlib.Path("r").glob("*/x")
print(json.dumps(json.loads((folder / "progress.json").read_text())))
""",
    )
    assert found["state"] == "interrupted"
    assert 2 <= found["scored"] < 13
