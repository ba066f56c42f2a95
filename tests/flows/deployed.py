"""A server with the project's deployments and a worker, made by the commands of docs/nightly.md."""

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import psutil

from tests.flows.program import Ended

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
    worker_pid: int = 0

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

    def post(self, path: str, body: dict[str, Any]) -> Any:
        """Asked again while the server's database is busy, as Prefect's own clients do."""
        while (answer := httpx.post(f"{self.url}{path}", json=body, timeout=60)).status_code == 503:
            time.sleep(0.5)
        return answer.raise_for_status().json()

    def start(self, flow: str, parameters: dict[str, Any]) -> str:
        """The id of a new run of the deployment of this name, as the UI's form makes it."""
        found = httpx.get(f"{self.url}/deployments/name/{flow}/{flow}", timeout=60)
        deployment = found.raise_for_status().json()["id"]
        made = self.post(f"/deployments/{deployment}/create_flow_run", {"parameters": parameters})
        return str(made["id"])

    def cancel(self, flow_run_id: str) -> None:
        """As the UI's button does."""
        state = {"state": {"type": "CANCELLING", "name": "Cancelling"}, "force": True}
        self.post(f"/flow_runs/{flow_run_id}/set_state", state)

    def retry(self, flow_run_id: str) -> None:
        """As the UI's button does."""
        state = {"state": {"type": "SCHEDULED", "name": "AwaitingRetry"}, "force": False}
        assert self.post(f"/flow_runs/{flow_run_id}/set_state", state)["status"] == "ACCEPT"

    def state(self, flow_run_id: str) -> str:
        answer = httpx.get(f"{self.url}/flow_runs/{flow_run_id}", timeout=60).raise_for_status()
        return str(answer.json()["state"]["name"])


@contextmanager
def deployed_in(home: Path, variables: Mapping[str, str]) -> Iterator[Deployed]:
    """`variables` are the worker's and the commands'."""
    env = {
        **{name: v for name, v in os.environ.items() if not name.startswith("PREFECT_")},
        "HOME": str(home),
        "PREFECT_HOME": str(home / "prefect"),
        "PATH": os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"])),
        "DO_NOT_TRACK": "1",
        "PREFECT_WORKER_QUERY_SECONDS": "1",
        **variables,
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
        yield Deployed(home, env, url, worker.pid)
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
