"""`agentcompass launch`: several requests for real, one of them refused."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from agentcompass.cli.launch import TAKEN_OVER
from agentcompass.cli.run_options import OPTIONS
from tests.cli.conftest import Cli
from tests.standins.model_endpoint import ModelServer
from tests.standins.model_script import Reply

FILE = """
version: 1
name: two by two
runtime: {task_concurrency: 3, progress: plain}
requests:
  - benchmarks: [{id: quickstart, limit: 3}, {id: quickstart_score, limit: 2}]
    harness: oracle
    models: [scripted]
  - benchmark: {id: quickstart, limit: 2}
    harness: idle
    model: scripted
    execution: {attempts: {k: 3}}
  - benchmark: {id: quickstart, limit: 2}
    harness: tool_agent
    model: {id: m, base_url: "BASE_URL", api_key: wrong-key}
"""


@pytest.mark.usefixtures("prefect_home")
def test_one_refused_request_stops_no_other_and_the_worst_is_the_exit_code(tmp_path: Path) -> None:
    refusal = Reply(text="Incorrect API key provided", status=401)
    with ModelServer(lambda request: refusal) as endpoint:
        (tmp_path / "l.yaml").write_text(FILE.replace("BASE_URL", endpoint.base_url))
        done = subprocess.run(
            [sys.executable, "-m", "agentcompass", "launch", "l.yaml", "--json"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=250,
            check=False,
        )
    document = json.loads(done.stdout)
    rows = document["requests"]
    assert [row["exit_code"] for row in rows] == [0, 0, 0, 3], done.stderr
    assert (document["exit_code"], done.returncode) == (3, 3)
    assert [row["metrics"]["headline"]["value"] for row in rows[:3]] == [1.0, 1.0, 0.0]
    assert [row["outcome"]["planned"] for row in rows[:3]] == [3, 2, 6]
    assert "model-api-key" in rows[3]["problem"]
    folders = [Path(row["outcome"]["run_dir"]) for row in rows[:3]]
    assert len(set(folders)) == 3
    logs = [(folder / "logs" / "run.log").read_text(encoding="utf-8") for folder in folders]
    for number, log in enumerate(logs):  # each log tells of its own run only
        assert str(folders[number]) in log
        assert not any(str(other) in log for n, other in enumerate(folders) if n != number)


@pytest.mark.usefixtures("prefect_home")
def test_a_matrix_runs_under_one_limit(tmp_path: Path) -> None:
    """2 benchmarks x 2 scripted models x k 1 and 3, never more than 3 attempts at once."""
    say = {"good": "ANSWER: nonsense", "bad": "I give up."}
    for name, text in say.items():
        (tmp_path / f"{name}.json").write_text(json.dumps({"default": [text]}))
    models = [{"id": "scripted", "params": {"script": f"{name}.json"}} for name in say]
    matrix = {
        "benchmarks": [{"id": "quickstart", "limit": 2}, {"id": "quickstart_score", "limit": 2}],
        "harness": "openai_chat",
        "models": models,
    }
    requests = [{**matrix, "execution": {"attempts": {"k": k}}} for k in (1, 3)]
    content = {
        "version": 1,
        "runtime": {"task_concurrency": 3, "progress": "plain"},
        "requests": requests,
    }
    (tmp_path / "l.json").write_text(json.dumps(content))
    done = subprocess.run(
        [sys.executable, "-m", "agentcompass", "launch", "l.json", "--json"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)["requests"]
    assert [row["outcome"]["planned"] for row in rows] == [2] * 4 + [6] * 4
    assert all(row["outcome"]["scored"] == row["outcome"]["planned"] for row in rows)
    at_once = [int(found) for found in re.findall(r"(\d+) running", done.stderr)]
    assert max(at_once) <= 3
    assert len({row["outcome"]["run_dir"] for row in rows}) == 8


def test_a_dry_run_shows_every_request_and_spends_nothing(cli: Cli, home: Path) -> None:
    without_endpoint = "  - ".join(FILE.split("  - ")[:-1])
    (home / "l.yaml").write_text(without_endpoint)
    document = json.loads(cli("launch", "l.yaml", "--dry-run", "--json").out)
    assert [len(request["tasks"]) for request in document["requests"]] == [3, 2, 2]
    assert document["exit_code"] == 0
    shown = cli("launch", "l.yaml", "--dry-run").out.splitlines()
    assert shown[-1] == "3 requests, 11 attempts; every parameter: --json"
    at = shown.index("── quickstart · idle · scripted")
    assert [line.split(maxsplit=1) for line in shown[at + 1 : -1]] == [
        ["benchmark", 'quickstart {"limit": 2}'],
        ["harness", "idle"],
        ["environment", "host_process"],
        ["model", "scripted by scripted"],
        ["tasks", "2 of 13 from built in: csv-quotes, durations"],
        ["attempts", "6 (k=3, avg), 3 at once"],
        ["results", f"{home}/results/scripted__quickstart__idle"],
    ]
    assert not (home / "results").exists()


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (("task_concurrency: 3", "task_concurency: 3"), "l.yaml: runtime.task_concurency: unknown"),
        (("harness: idle", "harnes: idle"), "requests[1]: harnes: unknown key"),
        (("limit: 3", "limt: 3"), "requests[0] (quickstart · oracle · scripted): benchmark-params"),
        (("k: 3", "k: 0"), "requests[1] (quickstart · idle · scripted): execution-params.attempts"),
        (("task_concurrency: 3", "task_concurrency: 0"), "l.yaml: runtime.task_concurrency: "),
        (("progress: plain", "progress: plan"), "l.yaml: runtime.progress: "),
        (
            ("progress: plain", "provider_limits: {dockr: 4}"),
            "l.yaml: runtime.provider_limits: no provider 'dockr'; did you mean 'docker'?",
        ),
    ],
)
def test_what_is_wrong_is_told_with_its_place_before_any_request_is_begun(
    cli: Cli, home: Path, change: tuple[str, str], complaint: str
) -> None:
    (home / "l.yaml").write_text(FILE.replace(*change).replace("BASE_URL", "http://127.0.0.1:9"))
    answer = cli("launch", "l.yaml")
    assert answer.code == 2
    assert answer.complaint.startswith(complaint)
    assert not (home / "results").exists()


@pytest.mark.parametrize("options", [(), ("--dry-run",)])
def test_every_impossible_request_is_told_at_once(
    cli: Cli, home: Path, options: tuple[str, ...]
) -> None:
    requests = [
        {"benchmark": {"id": "gsm8k", "data_path": "none.jsonl"}, "harness": "oracle"},
        {"benchmark": "quickstart", "harness": "oracle"},
        {"benchmark": "quickstrat", "harness": "oracle"},
        {"benchmark": "quickstart", "harness": "oracle", "execution": {"attempts": {"k": 0}}},
    ]
    content = {"version": 1, "defaults": {"model": "scripted"}, "requests": requests}
    (home / "l.json").write_text(json.dumps(content))
    answer = cli("launch", "l.json", "--json", *options)
    assert answer.code == 2
    titles = [
        "requests[3] (quickstart · oracle · scripted)",
        "requests[0] (gsm8k · oracle · scripted)",
        "requests[2] (quickstrat · oracle · scripted)",
    ]
    told = answer.err.splitlines()
    assert [line.removeprefix("agentcompass: ").partition(": ")[0] for line in told] == titles
    assert "execution-params.attempts.k" in told[0]
    assert "none.jsonl: does not exist" in told[1]
    assert "no benchmark named 'quickstrat'" in told[2]
    problems = json.loads(answer.out)["error"]["problems"]
    assert [problem["request"] for problem in problems] == titles
    assert not (home / "results").exists()


def test_two_requests_cannot_share_a_folder(cli: Cli, home: Path) -> None:
    one = {"benchmark": "quickstart", "harness": "oracle", "model": "scripted"}
    requests = [{**one, "output": {"run_id": "x"}}] * 2
    (home / "l.json").write_text(json.dumps({"version": 1, "requests": requests}))
    complaint = cli("launch", "l.json").complaint
    assert complaint.startswith("requests[1] (quickstart · oracle · scripted): run_id: requests[0]")


def test_null_takes_a_value_of_the_defaults_back(cli: Cli, home: Path) -> None:
    """A built-in model takes no address; the others of the file keep theirs."""
    below = {"model": {"base_url": "http://127.0.0.1:9", "api_key": "k"}}
    one = {"benchmark": {"id": "quickstart", "limit": 1}, "harness": "oracle"}
    models = [{"id": "scripted", "base_url": None, "api_key": None}, {"id": "m"}]
    content = {"version": 1, "defaults": below, "requests": [{**one, "models": models}]}
    (home / "l.json").write_text(json.dumps(content))
    answer = cli("launch", "l.json", "--dry-run", "--json")
    requests = [r["plan"]["request"] for r in json.loads(answer.out)["requests"]]
    assert [r["model"]["base_url"] for r in requests] == ["", "http://127.0.0.1:9"]


def test_the_options_taken_over_from_run_exist() -> None:
    assert set(TAKEN_OVER) <= {option.name for option in OPTIONS}
