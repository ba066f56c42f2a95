"""Whole runs of the real command line in every kind of sandbox: docker for real, modal and daytona
against servers that really run the commands."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.components.environments.daytona_places import standing_in
from tests.components.environments.docker_engine import (
    IMAGE,
    client,
    containers_of,
    needs_engine,
    wait_until_gone,
)
from tests.components.environments.modal_sandboxes import needs_sandboxes
from tests.flows.program import agentcompass
from tests.flows.test_agents import SAMPLES, Teacher
from tests.standins.modal_server import modal_standin
from tests.standins.model_endpoint import ModelServer

pytestmark = pytest.mark.usefixtures("prefect_home")

DOCKER = json.dumps({"setup": {"image": IMAGE}})
CLOUD = json.dumps({"setup": {"image": "debian:stable-slim"}})
SIXTEEN = ["--task-concurrency", "16", "--json", "--progress", "none"]


@pytest.fixture
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[list[str]]:
    """The words that choose an environment, and what stands behind it."""
    match request.param:
        case "docker":
            yield ["--env", "docker", "--env-params", DOCKER]
        case "modal":
            with modal_standin(tmp_path / "modal"):
                yield ["--env", "modal", "--env-params", CLOUD]
        case "daytona":
            with standing_in(tmp_path / "daytona"):
                yield ["--env", "daytona", "--env-params", CLOUD]


everywhere = pytest.mark.parametrize(
    "place",
    [
        pytest.param("docker", marks=needs_engine),
        pytest.param("modal", marks=needs_sandboxes),
        pytest.param("daytona", marks=needs_sandboxes),
    ],
    indirect=True,
)


@everywhere
@pytest.mark.parametrize(("harness", "score"), [("oracle", 1.0), ("idle", 0.0)])
def test_the_known_good_solutions_score_full_and_doing_nothing_scores_nothing(
    tmp_path: Path, place: list[str], harness: str, score: float
) -> None:
    k = 2 if harness == "oracle" else 1  # two attempts at one task are strangers
    words = ["run", "quickstart", harness, "scripted", "--k", str(k), *place, *SIXTEEN]
    ended = agentcompass(*words, cwd=tmp_path)
    assert ended.exit_code == 0, ended.stderr
    metrics = ended.document["metrics"]
    assert metrics["headline"]["value"] == score
    assert ended.document["scored"] == k * len(SAMPLES)


@everywhere
@pytest.mark.parametrize("harness", ["tool_agent", "mini_swe_agent"])
def test_agents_that_work_by_shell_commands_solve_the_tasks_inside(
    tmp_path: Path, place: list[str], harness: str
) -> None:
    wrong = frozenset({"pagination"})
    with ModelServer(Teacher(harness, wrong)) as endpoint:
        ended = agentcompass(
            "run", "quickstart", harness, "teacher", *place, *SIXTEEN,
            "--model-base-url", endpoint.base_url, "--model-api-key", "none",
            cwd=tmp_path,
        )  # fmt: skip
    assert ended.exit_code == 0, ended.stderr
    share = 1 - len(wrong) / len(SAMPLES)
    assert ended.document["metrics"]["headline"]["value"] == pytest.approx(share)


@needs_engine
def test_the_image_is_in_the_record(tmp_path: Path) -> None:
    one = json.dumps({"sample_ids": ["csv-quotes"]})
    ended = agentcompass(
        "run", "quickstart", "oracle", "scripted", "--env", "docker", "--env-params", DOCKER,
        "--benchmark-params", one, "--json", cwd=tmp_path,
    )  # fmt: skip
    (detail,) = Path(ended.document["run_dir"]).glob("tasks/*/detail.json")
    (attempt,) = json.loads(detail.read_text())["attempts"]
    assert attempt["image"].rpartition("@")[2] == client().images.get(IMAGE).id


@needs_engine
@pytest.mark.parametrize(("number", "seconds"), [(signal.SIGKILL, 5), (signal.SIGINT, 30)])
def test_an_ended_run_leaves_no_container_and_touches_no_other(
    tmp_path: Path, number: signal.Signals, seconds: float
) -> None:
    """16 attempts under way: kill -9 without any later command, and Ctrl-C."""
    bystander = client().containers.run(IMAGE, ["sleep", "600"], detach=True, network_mode="none")
    sleep = {"name": "shell", "arguments": {"command": "sleep 300"}}
    script = {"default": [{"tool_calls": [sleep]}]}
    (tmp_path / "script.json").write_text(json.dumps(script))
    run_id = f"ended-{number.name.lower()}"
    try:
        running = subprocess.Popen(
            [
                sys.executable, "-m", "agentcompass", "run", "quickstart", "tool_agent", "scripted",
                "--model-params", '{"script": "script.json"}', "--env", "docker", "--env-params",
                DOCKER, "--k", "2", "--task-concurrency", "16", "--run-id", run_id,
            ],
            cwd=tmp_path, env=os.environ, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        )  # fmt: skip
        give_up = time.monotonic() + 120
        while sum(c["State"] == "running" for c in containers_of(run_id)) < 16:
            assert time.monotonic() < give_up, "16 containers did not come up"
            assert running.poll() is None, (running.stderr or sys.stdin).read()
            time.sleep(0.2)
        volumes, networks = _volumes(), _networks()
        time.sleep(2)
        running.send_signal(number)
        assert wait_until_gone(run_id, seconds) == []
        running.wait(60)
        assert _volumes() <= volumes
        assert _networks() <= networks
        bystander.reload()
        assert bystander.status == "running"
    finally:
        running.kill()
        running.wait()
        bystander.remove(force=True)


def _volumes() -> set[str]:
    return {volume.name for volume in client().volumes.list()}


def _networks() -> set[str]:
    return {network.name for network in client().networks.list()}
