"""Whole runs through the real command line, the real Prefect server and real sandboxes."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import httpx
import pandas
import psutil
import pytest

from agentcompass.components.benchmarks.gsm8k import COMPONENT as GSM8K
from agentcompass.flows import server
from tests.flows.program import Ended, agentcompass
from tests.standins.model_endpoint import ModelServer
from tests.standins.model_script import Reply

pytestmark = pytest.mark.usefixtures("prefect_home")


def prefect(path: str, body: dict[str, Any]) -> Any:
    running = server.status()
    assert running is not None
    return httpx.post(f"{running.url}{path}", json=body, timeout=60).raise_for_status().json()


def recorded(run_dir: Path) -> dict[str, Any]:
    return dict(json.loads((run_dir / "run.json").read_text()))


def questions(folder: Path, count: int) -> tuple[Path, list[str]]:
    """A small gsm8k file whose answers are 0, 1, 2, …, and its task ids."""
    path = folder / "questions.jsonl"
    rows = [{"question": f"What is {n}+0? ({n})", "answer": f"#### {n}"} for n in range(count)]
    path.write_text("\n".join(map(json.dumps, rows)) + "\n")
    parameters = GSM8K.parameters.model_validate({"data_path": str(path)})
    return path, [s.task.id for s in GSM8K.create(parameters).load(folder).samples]


def gsm8k(path: Path) -> list[str]:
    return ["--benchmark-params", json.dumps({"data_path": str(path)})]


def test_the_known_good_agent_scores_one_and_prefect_has_recorded_it(tmp_path: Path) -> None:
    ended = agentcompass("run", "quickstart", "oracle", "scripted", cwd=tmp_path)
    assert ended.exit_code == 0, ended.stderr
    run_dir = ended.run_dir
    metrics = json.loads((run_dir / "metrics.json").read_text())
    assert metrics["headline"]["value"] == 1.0
    assert metrics["headline"]["interval95"][1] == 1.0
    assert metrics["coverage"]["scored"] == metrics["headline"]["n_tasks"] >= 12
    rows = pandas.read_parquet(run_dir / "attempts.parquet")
    assert (rows["status"] == "scored").all()

    run_id = recorded(run_dir)["prefect_flow_run_id"]
    (parent,) = prefect("/flow_runs/filter", {"flow_runs": {"id": {"any_": [run_id]}}})
    assert (parent["name"], parent["state_type"]) == ("quickstart · oracle · scripted", "COMPLETED")
    assert {"agentcompass", "benchmark:quickstart", "model:scripted"} <= set(parent["tags"])
    subflows = prefect(
        "/flow_runs/filter", {"flow_runs": {"parent_flow_run_id": {"any_": [run_id]}}}
    )
    assert {run["name"]: run["state_type"] for run in subflows} == dict.fromkeys(
        ["prepare data", "preflight", "attempts", "scoring", "aggregate", "analyze"], "COMPLETED"
    )
    task_runs = [
        run
        for subflow in subflows
        for run in prefect(
            "/task_runs/filter", {"flow_runs": {"id": {"any_": [subflow["id"]]}}, "limit": 200}
        )
    ]
    assert len(task_runs) == 2 * len(rows)
    assert {run["state_type"] for run in task_runs} == {"COMPLETED"}
    assert "csv-quotes #1" in {run["name"] for run in task_runs}


def test_an_agent_that_does_nothing_scores_zero_and_json_is_one_document(tmp_path: Path) -> None:
    ended = agentcompass("run", "quickstart", "idle", "scripted", "--json", cwd=tmp_path)
    assert ended.exit_code == 0, ended.stderr
    assert ended.document["metrics"]["headline"]["value"] == 0.0
    assert ended.document["metrics"]["primary"] == "correct"


def test_a_scalar_primary(tmp_path: Path) -> None:
    ended = agentcompass("run", "quickstart_score", "oracle", "scripted", "--json", cwd=tmp_path)
    assert ended.exit_code == 0, ended.stderr
    assert ended.document["metrics"]["primary"] == "score"
    assert ended.document["metrics"]["headline"]["value"] == 1.0


OUTCOMES = ["00ee", "1000", "1e01", "eeee"]
"""Right, wrong or failed, by task and attempt (case C36)."""


def script(folder: Path, task_ids: list[str], outcomes: list[str]) -> list[str]:
    """A scripted model that produces these outcomes for the questions 0, 1, 2, …."""
    failed = {"error": {"code": "model.unavailable", "message": "planted"}}
    tasks = {}
    for right, (task_id, row) in enumerate(zip(task_ids, outcomes, strict=True)):
        answers = {"1": f"#### {right}", "0": "#### -1", "e": failed}
        tasks[task_id] = {"attempts": {n: [answers[o]] for n, o in enumerate(row, start=1)}}
    path = folder / "script.json"
    path.write_text(json.dumps({"tasks": tasks}))
    return ["--model-params", json.dumps({"script": str(path)})]


def test_k_4_avg_gives_the_hand_computed_numbers_everywhere(tmp_path: Path) -> None:
    data, ids = questions(tmp_path, 4)
    words = ["run", "gsm8k", "openai_chat", "scripted", *gsm8k(data), "--k", "4"]
    ended = agentcompass(*words, *script(tmp_path, ids, OUTCOMES), cwd=tmp_path)
    assert ended.exit_code == 1, ended.stderr  # finished, and something is unscored
    metrics = json.loads((ended.run_dir / "metrics.json").read_text())
    values = {
        m["name"]: (m["planned"]["value"], m["scored"]["value"], m["scored"]["n_tasks"])
        for m in metrics["metrics"]
    }
    assert values["avg@4"] == pytest.approx((0.1875, (0 + 0.25 + 2 / 3) / 3, 3))
    assert values["pass@4"] == (0.5, 1.0, 1)
    assert values["pass^4"] == (0.0, 0.0, 1)
    assert values["pass@2"] == pytest.approx(((0 + 0.5 + 5 / 6 + 0) / 4, 0.5, 3))
    coverage = metrics["coverage"]
    assert (coverage["planned_attempts"], coverage["scored"], coverage["unscored"]) == (16, 9, 7)
    assert metrics["failures"][0]["code"] == "model.unavailable"
    summary = (ended.run_dir / "summary.md").read_text()
    for shown in ("0.1875", "0.3056", "0.5"):
        assert shown in ended.stdout
        assert shown in summary


def test_pass_stops_at_the_first_success(tmp_path: Path) -> None:
    data, ids = questions(tmp_path, 3)
    words = ["run", "gsm8k", "openai_chat", "scripted", *gsm8k(data), "--json"]
    words += ["--k", "4", "--attempt-strategy", "pass"]
    ended = agentcompass(*words, *script(tmp_path, ids, ["0100", "1000", "00e0"]), cwd=tmp_path)
    metrics = ended.document["metrics"]
    assert ended.exit_code == 1
    assert metrics["headline"]["name"] == "pass@4"
    assert metrics["headline"]["value"] == pytest.approx(2 / 3)
    coverage = metrics["coverage"]
    assert (coverage["scored"], coverage["unscored"], coverage["skipped"]) == (6, 1, 5)


@pytest.mark.parametrize(("status", "said"), [(401, "key"), (404, "model")])
def test_an_endpoint_that_refuses_is_asked_once_and_nothing_is_written(
    tmp_path: Path, status: int, said: str
) -> None:
    with ModelServer(lambda request: Reply(status=status, body='{"error": "no"}')) as endpoint:
        words = ["run", "quickstart", "openai_chat", "m", "--model-api-key", "zz-secret-zz"]
        ended = agentcompass(*words, "--model-base-url", endpoint.base_url, cwd=tmp_path)
        assert len(endpoint.requests) == 1
    assert ended.exit_code == 3
    assert said in ended.stderr
    assert "zz-secret-zz" not in ended.stderr
    assert "Traceback" not in ended.stderr
    assert not (tmp_path / "results").exists()


def test_an_unreachable_endpoint_is_refused(tmp_path: Path) -> None:
    words = ["run", "quickstart", "openai_chat", "m", "--model-api-key", "none"]
    ended = agentcompass(*words, "--model-base-url", "http://127.0.0.1:9/v1", cwd=tmp_path)
    assert ended.exit_code == 3
    assert "http://127.0.0.1:9/v1" in ended.stderr
    assert not (tmp_path / "results").exists()


def test_a_key_refused_in_mid_run_stops_the_run_and_keeps_what_is_finished(tmp_path: Path) -> None:
    data, _ = questions(tmp_path, 8)

    def answer(request: Any) -> Reply:
        return Reply(text="#### 0") if request.number <= 3 else Reply(status=401, body="revoked")

    with ModelServer(answer) as endpoint:
        words = ["run", "gsm8k", "openai_chat", "m", *gsm8k(data), "--model-api-key", "none"]
        words += ["--model-base-url", endpoint.base_url, "--task-concurrency", "1", "--json"]
        ended = agentcompass(*words, cwd=tmp_path)
        assert len(endpoint.requests) == 4  # preflight's, two good ones, the refused one
    assert ended.exit_code == 4
    assert "key" in ended.document["problem"]
    coverage = ended.document["metrics"]["coverage"]
    assert (coverage["scored"], coverage["unscored"], coverage["missing"]) == (2, 1, 5)


def test_silent_and_dripping_endpoints_end_by_their_deadlines(tmp_path: Path) -> None:
    data, ids = questions(tmp_path, 5)
    odd = {2: Reply(hang=True), 3: Reply(stall=True), 4: Reply(drip_seconds=2)}

    def answer(request: Any) -> Reply:
        number = next((n for n in range(5) if f"({n})" in request.first_user), None)
        return Reply(text=f"#### {number}") if number not in odd else odd[number]

    with ModelServer(answer) as endpoint:
        words = ["run", "gsm8k", "openai_chat", "m", *gsm8k(data), "--model-api-key", "none"]
        words += ["--model-base-url", endpoint.base_url, "--json"]
        words += ["--execution-params", '{"run_timeout_seconds": 6}']
        started = time.monotonic()
        ended = agentcompass(*words, cwd=tmp_path)
        spent = time.monotonic() - started
    assert ended.exit_code == 1
    assert spent < 90  # the deadline is 6 s; the rest is a loaded machine
    run_dir = Path(ended.document["run_dir"])
    metrics = ended.document["metrics"]
    assert (metrics["coverage"]["scored"], metrics["headline"]["value"]) == (2, 0.4)
    assert [f["code"] for f in metrics["failures"]] == ["model.timeout"]
    details = [json.loads(p.read_text()) for p in run_dir.glob("tasks/*/detail.json")]
    assert {d["task_id"] for d in details} == set(ids)


def start(*words: str, cwd: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "agentcompass", *words],
        cwd=cwd,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupting_keeps_what_is_finished_and_leaves_no_process(
    tmp_path: Path, number: signal.Signals
) -> None:
    """C08 on host_process: also a child that left the session, and a second signal."""
    marker = f"sleep 31{os.getpid() % 1000:03}.{int(number)}"
    busy = {"name": "shell", "arguments": {"command": f"setsid {marker} & {marker}"}}
    script_file = tmp_path / "script.json"
    tasks = {"stock-value": [{"tool_calls": [{"name": "submit", "arguments": {"answer": "1"}}]}]}
    script_file.write_text(json.dumps({"tasks": tasks, "default": [{"tool_calls": [busy]}]}))
    words = ["run", "quickstart", "tool_agent", "scripted", "--json", "--run-id", "stopped"]
    words += ["--model-params", json.dumps({"script": str(script_file)})]
    run = start(*words, cwd=tmp_path)
    _until(lambda: len(_running(marker)) >= 8, "the agents' commands run")
    folder = tmp_path / "results/scripted__quickstart__tool_agent/stopped"
    _until(lambda: any(folder.glob("tasks/stock-value/detail.json")), "one attempt is finished")
    run.send_signal(number)
    time.sleep(0.5)
    run.send_signal(number)
    output, errors = run.communicate(timeout=90)
    assert run.returncode == 128 + number, errors.decode()
    assert not _running(marker)
    ended = Ended(run.returncode, output.decode(), errors.decode())
    assert "Traceback" not in ended.stderr
    assert ended.document["outcome"] == "interrupted"
    assert ended.document["metrics"]["coverage"]["scored"] == 1
    assert ended.document["metrics"]["outcomes"]["unscored"] == {"run.cancelled": 12}
    run_id = recorded(folder)["prefect_flow_run_id"]
    (parent,) = prefect("/flow_runs/filter", {"flow_runs": {"id": {"any_": [run_id]}}})
    assert parent["state_type"] == "CANCELLED"


def _running(command: str) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter(["cmdline"]):
        if " ".join(process.info["cmdline"] or ()) == command:
            found.append(process)
    return found


def _until(true: Any, what: str, seconds: float = 90) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, f"waited {seconds} s until {what}"
        time.sleep(0.1)


def test_the_runs_own_time_out_ends_it(tmp_path: Path) -> None:
    script_file = tmp_path / "script.json"
    script_file.write_text(json.dumps({"default": [{"content": "x", "delay_seconds": 600}]}))
    words = ["run", "quickstart", "openai_chat", "scripted", "--json", "--timeout-seconds", "3"]
    words += ["--model-params", json.dumps({"script": str(script_file)})]
    ended = agentcompass(*words, cwd=tmp_path)
    assert ended.exit_code == 4
    assert ended.document["outcome"] == "timed_out"
    assert "time-out of 3 s" in ended.stderr
    assert set(ended.document["metrics"]["outcomes"]["unscored"]) == {"run.timeout"}
    assert ended.document["metrics"]["headline"]["value"] is None


def test_hostile_surroundings(tmp_path: Path) -> None:
    """C59: odd locale, no home, a dead API, a dumb terminal, two runs at once, output to files."""
    data = tmp_path / "data.jsonl"
    rows = [{"question": f"Wie viel ist {n}+0? 🧭 多少", "answer": f"#### {n}"} for n in range(20)]
    text = "\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
    data.write_text(text, encoding="utf-8")
    env = {
        **os.environ,
        "LC_ALL": "C",
        "PYTHONUTF8": "0",
        "PYTHONIOENCODING": "ascii",
        "TERM": "dumb",
        "HOME": "/proc/none",
        "PREFECT_API_URL": "http://127.0.0.1:9/api",
    }
    words = ["run", "gsm8k", "oracle", "scripted", "--task-concurrency", "20", *gsm8k(data)]
    runs = []
    for number in range(2):
        with (
            (tmp_path / f"out{number}").open("wb") as out,
            (tmp_path / f"err{number}").open("wb") as err,
        ):
            runs.append(
                subprocess.Popen(
                    [sys.executable, "-m", "agentcompass", *words],
                    cwd=tmp_path,
                    env=env,
                    stdout=out,
                    stderr=err,
                )
            )
    for number, run in enumerate(runs):
        assert run.wait(timeout=240) == 0, (tmp_path / f"err{number}").read_text()
    folders = set()
    for number in range(2):
        out = (tmp_path / f"out{number}").read_bytes()
        errors = (tmp_path / f"err{number}").read_bytes()
        assert b"\r" not in out + errors
        assert b"\x1b" not in out + errors
        assert b"locked" not in errors
        assert b"does not answer" in errors
        folder = Path(out.decode().strip().splitlines()[-1])
        folders.add(folder)
        assert json.loads((folder / "metrics.json").read_text())["headline"]["value"] == 1.0
        for path in folder.rglob("*.json"):
            path.read_text(encoding="utf-8")
    assert len(folders) == 2


@pytest.mark.parametrize("name", ["../m", "/abs/path/ckpt-1"])
def test_a_models_name_never_leaves_the_results_folder(tmp_path: Path, name: str) -> None:
    words = ["run", "quickstart", "idle", name, "--json", "--progress", "none"]
    ended = agentcompass(*words, "--benchmark-params", '{"limit": 1}', cwd=tmp_path, timeout=240)
    assert ended.exit_code == 0, ended.stderr
    run_dir = Path(ended.document["run_dir"])
    assert run_dir.parent.parent == tmp_path / "results"
    assert recorded(run_dir)["plan"]["request"]["model"]["id"] == name
