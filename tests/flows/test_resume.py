"""A run that was killed, or cancelled in the UI, and what the next one makes of it."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from agentcompass.flows import server
from tests.flows.program import Ended, agentcompass

pytestmark = pytest.mark.usefixtures("prefect_home")

SLOW = "sleep 317.5"


def api(path: str, body: dict[str, Any]) -> Any:
    running = server.status()
    assert running is not None
    return httpx.post(f"{running.url}{path}", json=body, timeout=60).raise_for_status().json()


def words(folder: Path, slow: bool) -> list[str]:
    """quickstart by a scripted agent: two tasks are answered, the others take for ever if slow."""
    answer = [{"tool_calls": [{"name": "submit", "arguments": {"answer": "ANSWER: 1"}}]}]
    busy = [
        {"tool_calls": [{"name": "shell", "arguments": {"command": f"setsid {SLOW} & {SLOW}"}}]}
    ]
    tasks = {"stock-value": answer, "march-refunds": answer}
    script = folder / "script.json"
    script.write_text(json.dumps({"tasks": tasks, "default": busy if slow else answer}))
    run = ["run", "quickstart", "tool_agent", "scripted", "--progress", "none", "--json"]
    return [*run, "--model-params", json.dumps({"script": str(script)})]


@contextmanager
def begun(folder: Path, run_id: str) -> "Iterator[tuple[subprocess.Popen[bytes], Path]]":
    """A run with two attempts scored and the others busy."""
    run = subprocess.Popen(
        [sys.executable, "-m", "agentcompass", *words(folder, slow=True), "--run-id", run_id],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    run_dir = folder / "results/scripted__quickstart__tool_agent" / run_id
    try:
        until(lambda: len(list(run_dir.glob("tasks/*/detail.json"))) == 2 and len(busy()) == 22)
        yield run, run_dir
    finally:
        run.kill()


def busy() -> list[psutil.Process]:
    return [
        process
        for process in psutil.process_iter(["cmdline"])
        if " ".join(process.info["cmdline"] or ()) == SLOW
    ]


def until(true: Callable[[], bool], seconds: float = 120) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, f"waited {seconds} s in vain"
        time.sleep(0.2)


def states(run_dir: Path) -> dict[str, str]:
    run_id = json.loads((run_dir / "run.json").read_text())["prefect_flow_run_id"]
    (parent,) = api("/flow_runs/filter", {"flow_runs": {"id": {"any_": [run_id]}}})
    children = api("/flow_runs/filter", {"flow_runs": {"parent_flow_run_id": {"any_": [run_id]}}})
    return {run["name"]: run["state_type"] for run in (parent, *children)}


def test_a_killed_run_leaves_no_process_is_resumed_and_marked_as_crashed(tmp_path: Path) -> None:
    with begun(tmp_path, "first") as (run, run_dir):
        os.kill(run.pid, signal.SIGKILL)
        run.wait()
    until(lambda: not busy(), seconds=30)
    scored = {p.parent.name: json.loads(p.read_text()) for p in run_dir.glob("tasks/*/detail.json")}
    other = agentcompass(*words(tmp_path, slow=False), "--run-name", "other", cwd=tmp_path)
    assert other.exit_code == 0, other.stderr
    found = states(run_dir)
    assert found["quickstart · tool_agent · scripted"] == "CRASHED"
    assert found["attempts"] == found["scoring"] == "CRASHED"
    assert json.loads((run_dir / "run.json").read_text())["state"] == "crashed"

    # The script's content changed with its slow part: nothing may be taken over, and why is said.
    changed = agentcompass(*words(tmp_path, slow=False), "--reuse", cwd=tmp_path)
    assert "model.script" in changed.stderr
    slow = words(tmp_path, slow=True)
    limits = ["--execution-params", '{"run_timeout_seconds": 2}']
    resumed = agentcompass(*slow, *limits, "--reuse", "first", "--run-id", "second", cwd=tmp_path)
    assert resumed.exit_code == 0, resumed.stderr
    assert resumed.document["planned"] == resumed.document["scored"] == 13
    second = run_dir.parent / "second"
    for name, before in scored.items():
        (after,) = json.loads((second / "tasks" / name / "detail.json").read_text())["attempts"]
        assert after["origin"] == "first"
        assert after["ended_at"] == before["attempts"][0]["ended_at"]
    names = api(
        "/task_runs/filter",
        {"task_runs": {"state": {"name": {"any_": ["Cached"]}}}, "limit": 200},
    )
    assert {"stock-value #1", "march-refunds #1"} <= {task_run["name"] for task_run in names}


def test_cancel_in_the_ui_ends_the_run_in_order(tmp_path: Path) -> None:
    with begun(tmp_path, "cancelled") as (run, run_dir):
        run_id = json.loads((run_dir / "run.json").read_text())["prefect_flow_run_id"]
        api(f"/flow_runs/{run_id}/set_state", {"state": {"type": "CANCELLING"}, "force": True})
        output, errors = run.communicate(timeout=120)
    assert run.returncode == 130, errors.decode()
    assert not busy()
    ended = Ended(run.returncode, output.decode(), errors.decode())
    assert ended.document["metrics"]["outcomes"]["unscored"] == {"run.cancelled": 11}
    assert states(run_dir)["quickstart · tool_agent · scripted"] == "CANCELLED"


def test_cancel_in_the_ui_before_there_are_attempts(tmp_path: Path) -> None:
    """The preflight call waits for a silent endpoint; nothing is left on disk."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/v1"
        words = ["run", "quickstart", "tool_agent", tmp_path.name, "--model-base-url", url]
        run = subprocess.Popen(
            [sys.executable, "-m", "agentcompass", *words, "--model-api-key", "k", "--json"],
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        ours = {"flow_runs": {"tags": {"all_": [f"model:{tmp_path.name}"]}}}
        try:
            silent.settimeout(120)
            connection, _ = silent.accept()
            (flow_run,) = [
                one for one in api("/flow_runs/filter", ours) if one["parent_task_run_id"] is None
            ]
            cancelling = {"state": {"type": "CANCELLING"}, "force": True}
            api(f"/flow_runs/{flow_run['id']}/set_state", cancelling)
            output, errors = run.communicate(timeout=120)
            connection.close()
        finally:
            run.kill()
    assert run.returncode == 130, errors.decode()
    assert json.loads(output) == {"error": {"problem": "interrupted"}, "exit_code": 130}
    (flow_run,) = api("/flow_runs/filter", {"flow_runs": {"id": {"any_": [flow_run["id"]]}}})
    assert flow_run["state_type"] == "CANCELLED"
    assert not (tmp_path / "results").exists()
