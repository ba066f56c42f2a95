"""docs/nightly.md does what it says, on a fresh server: deploy, work, submit, the next night."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from tests.flows.program import Ended

pytestmark = pytest.mark.xdist_group("prefect")

ROOT = Path(__file__).parent.parent.parent
PAGE = (ROOT / "docs/nightly.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```bash\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
SERVER, DEPLOY, WORKER, SUBMIT, NIGHT = BLOCKS
SLOW = f"sleep 31{os.getpid() % 1000:03}.75"


@dataclass(frozen=True)
class Deployed:
    """A server with the deployments and a worker, made by the page's own commands."""

    home: Path
    env: dict[str, str]
    url: str

    def shell(self, commands: str) -> Ended:
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", commands],
            cwd=ROOT,
            env=self.env,
            capture_output=True,
            timeout=240,
            check=False,
        )
        return Ended(done.returncode, done.stdout.decode(), done.stderr.decode())

    def submit(self, *words: str) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [sys.executable, "-m", "agentcompass", "submit", *words, "--wait", "--json"],
            cwd=self.home,
            env=self.env,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def slow_script(self) -> str:
        """Of a model whose agent never ends, with children that left their session."""
        call = {"name": "shell", "arguments": {"command": f"setsid {SLOW} & {SLOW}"}}
        script = self.home / "script.json"
        script.write_text(json.dumps({"default": [{"tool_calls": [call]}]}))
        return str(script)

    def cancel(self, flow_run_id: str) -> None:
        """As the UI's button does."""
        state = {"state": {"type": "CANCELLING", "name": "Cancelling"}}
        answer = httpx.post(f"{self.url}/flow_runs/{flow_run_id}/set_state", json=state, timeout=60)
        answer.raise_for_status()

    def state(self, flow_run_id: str) -> str:
        answer = httpx.get(f"{self.url}/flow_runs/{flow_run_id}", timeout=60).raise_for_status()
        return str(answer.json()["state"]["name"])


@pytest.fixture(scope="module")
def deployed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployed]:
    home = tmp_path_factory.mktemp("nightly")
    env = {
        **{name: v for name, v in os.environ.items() if not name.startswith("PREFECT_")},
        "HOME": str(home),
        "PREFECT_HOME": str(home / "prefect"),
        "PATH": os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"])),
        "DO_NOT_TRACK": "1",
    }
    env.pop("MODEL_API_KEY", None)
    world = Deployed(home, env, "")
    log = home / "worker.log"
    worker = None
    try:
        ready = world.shell(f'{SERVER}{DEPLOY}echo "$PREFECT_API_URL"')
        assert ready.exit_code == 0, ready.stdout + ready.stderr
        url = ready.stdout.strip().splitlines()[-1]
        env["PREFECT_API_URL"] = url
        with log.open("wb") as output:
            worker = subprocess.Popen(
                ["bash", "-c", f"exec {WORKER}"], cwd=ROOT, env=env, stdout=output, stderr=output
            )
        until(lambda: "started!" in log.read_text(), "no worker")
        yield Deployed(home, env, url)
    finally:
        if worker is not None:
            worker.terminate()
            try:
                worker.wait(60)
            except subprocess.TimeoutExpired:
                worker.kill()
        subprocess.run(
            [sys.executable, "-m", "agentcompass", "server", "stop"],
            env=env,
            timeout=60,
            check=True,
        )


def until(reached: Callable[[], bool], otherwise: str, seconds: float = 120) -> None:
    end = time.monotonic() + seconds
    while not reached():
        assert time.monotonic() < end, otherwise
        time.sleep(0.2)


def busy() -> int:
    lines = (process.info["cmdline"] for process in psutil.process_iter(["cmdline"]))
    return sum(" ".join(line or ()) == SLOW for line in lines)


def test_the_submitted_run_is_the_run(deployed: Deployed) -> None:
    ended = deployed.shell(SUBMIT)
    assert ended.exit_code == 0, ended.stderr
    assert ended.run_dir.is_relative_to(deployed.home / "agentcompass-results")
    metrics = json.loads((ended.run_dir / "metrics.json").read_bytes())
    assert metrics["headline"]["value"] == 1.0
    assert "over planned attempts: 13 tasks" in ended.stdout
    assert "13 of 13" in ended.stderr or "waiting of 13" in ended.stderr
    told = json.loads((ended.run_dir / "run.json").read_bytes())
    flow_run = httpx.get(f"{deployed.url}/flow_runs/{told['prefect_flow_run_id']}").json()
    assert flow_run["name"] == "quickstart · oracle · scripted"
    assert {"benchmark:quickstart", "harness:oracle", "model:scripted"} <= set(flow_run["tags"])
    log = (ended.run_dir / "logs/run.log").read_text(encoding="utf-8")
    assert "scored 1.0" in log


def test_the_schedule_shows_the_next_night(deployed: Deployed) -> None:
    listed = deployed.shell(NIGHT)
    assert listed.exit_code == 0, listed.stderr
    assert "0 3 * * *" in listed.stdout
    rows = json.loads(deployed.shell("agentcompass list runs --json").stdout)
    times = sorted(
        datetime.fromisoformat(row["started"]) for row in rows if row["state"] == "scheduled"
    )
    now = datetime.now(UTC)
    tonight = now.replace(hour=3, minute=0, second=0, microsecond=0)
    assert times[0] == (tonight if tonight > now else tonight + timedelta(days=1))


def test_stopping_to_wait_does_not_stop_the_run_and_cancel_does(deployed: Deployed) -> None:
    waiting = deployed.submit(
        *("quickstart", "tool_agent", "scripted", "--results-dir", str(deployed.home / "slow")),
        *("--model-params", json.dumps({"script": deployed.slow_script()})),
        *("--benchmark-params", '{"limit": 2}'),
    )
    try:
        until(lambda: busy() == 4, "the agents never began")
        waiting.send_signal(signal.SIGINT)
        output, errors = waiting.communicate(timeout=30)
    finally:
        waiting.kill()
    assert waiting.returncode == 130
    flow_run_id = json.loads(output)["flow_run_id"]
    assert f"the run goes on: {deployed.url.removesuffix('/api')}" in errors
    assert f"prefect flow-run cancel {flow_run_id}" in errors
    time.sleep(2)
    assert busy() == 4

    deployed.cancel(flow_run_id)
    until(lambda: busy() == 0, "an agent outlived the Cancel", seconds=30)
    until(lambda: deployed.state(flow_run_id) == "Cancelled", "the run is not Cancelled")
    (run_json,) = (deployed.home / "slow").glob("*/*/run.json")
    until(lambda: json.loads(run_json.read_bytes())["state"] == "interrupted", "no orderly end")
    details = [json.loads(p.read_bytes()) for p in run_json.parent.glob("tasks/*/detail.json")]
    assert {d["attempts"][0]["failure"]["code"] for d in details} == {"run.cancelled"}


def test_a_cancelled_launch_ends_all_its_runs(deployed: Deployed) -> None:
    request = {
        "benchmark": {"id": "quickstart", "params": {"limit": 1}},
        "harness": {"id": "tool_agent"},
        "model": {"id": "scripted", "params": {"script": deployed.slow_script()}},
        "runtime": {"results_dir": str(deployed.home / "launched")},
    }
    launch = httpx.get(f"{deployed.url}/deployments/name/launch/launch").json()["id"]
    made = httpx.post(
        f"{deployed.url}/deployments/{launch}/create_flow_run",
        json={"parameters": {"name": "two", "requests": [request, request]}},
    ).raise_for_status()
    until(lambda: busy() == 4, "the agents never began")
    deployed.cancel(made.json()["id"])
    until(lambda: busy() == 0, "an agent outlived the Cancel", seconds=30)
    until(lambda: deployed.state(made.json()["id"]) == "Cancelled", "it is not Cancelled")
    states = [
        json.loads(path.read_bytes())["state"]
        for path in (deployed.home / "launched").glob("*/*/run.json")
    ]
    assert states == ["interrupted", "interrupted"]


@pytest.mark.parametrize(
    ("key", "code", "said"),
    [
        ("sk-typed-literally", 2, "model-api-key: holds a secret, which would be stored"),
        ("${NOT_SET_ANYWHERE}", 2, "environment variable NOT_SET_ANYWHERE is not set"),
        ("${block:no-such-block}", 2, "no Prefect Secret block 'no-such-block'"),
        ("${HOME}", 3, "the endpoint is unreachable"),
        ("${block:kept-key}", 3, "the endpoint is unreachable"),
    ],
)
def test_a_run_that_cannot_start_ends_with_its_code(
    deployed: Deployed, key: str, code: int, said: str
) -> None:
    if "kept-key" in key:
        save = "from prefect.blocks.system import Secret; Secret(value='k-7').save('kept-key')"
        assert deployed.shell(f'python -c "{save}"').exit_code == 0
    waiting = deployed.submit(
        *("quickstart", "tool_agent", "m", "--model-base-url", "http://127.0.0.1:9/v1"),
        *("--model-api-key", key),
    )
    output, errors = waiting.communicate(timeout=120)
    assert (waiting.returncode, json.loads(output)["exit_code"]) == (code, code), errors
    assert said in errors
    assert "Traceback" not in errors
    assert "sk-typed-literally" not in errors.replace("--model-api-key", "")


def test_a_deployment_that_is_not_there_is_named(deployed: Deployed) -> None:
    ended = deployed.shell("agentcompass submit quickstart idle scripted --deployment nope")
    assert ended.exit_code == 2
    assert "deployment: no deployment 'evaluate/nope'" in ended.stderr
    assert "prefect deploy --all" in ended.stderr


def test_the_form_offers_what_is_registered(deployed: Deployed) -> None:
    found = httpx.get(f"{deployed.url}/deployments/name/evaluate/evaluate").raise_for_status()
    deployment: dict[str, Any] = found.json()
    definitions = deployment["parameter_openapi_schema"]["definitions"]
    fields = definitions["RunRequest"]["properties"]
    ids = {name: fields[name]["properties"]["id"]["enum"] for name in ("benchmark", "harness")}
    assert {"quickstart", "gsm8k"} <= set(ids["benchmark"])
    assert {"oracle", "tool_agent"} <= set(ids["harness"])
    assert "docker" in fields["environment"]["properties"]["id"]["enum"]
    assert not [name for name, field in fields.items() if not field.get("description")]
    for model in ("ExecutionSettings", "RuntimeSettings", "ModelSpec", "SecretReference"):
        properties = definitions[model]["properties"]
        undescribed = [n for n, f in properties.items() if not f.get("description")]
        assert not undescribed, f"{model}: {undescribed}"
    assert deployment["global_concurrency_limit"]["limit"] == 2
    assert "agentcompass" in deployment["tags"]
