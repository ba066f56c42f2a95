"""Retry in the UI goes on in the run's own folder, and does again only what is unscored; Cancel in
the UI takes the sandboxes along. On a real server with a real worker."""

import json
import os
import shlex
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.components.environments.docker_engine import IMAGE, client, needs_engine
from tests.flows.deployed import Deployed, deployed_in, until
from tests.flows.toy_words import toy_words, write_rules

ANSWERS = {"apple": "apple", "avocado": "pear", "banana": "banana", "blueberry": "blueberry"}
BROKEN = ["apple", "avocado", "banana"]


@pytest.fixture(scope="module")
def deployed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployed]:
    home = tmp_path_factory.mktemp("retry")
    with deployed_in(home, toy_words(home)) as world:
        yield world


def asked(deployed: Deployed, name: str, **more: Any) -> dict[str, Any]:
    """A request for the four words, of which one is answered wrongly."""
    script = deployed.home / "answers.json"
    script.write_text(json.dumps({"tasks": {word: [said] for word, said in ANSWERS.items()}}))
    return {
        "benchmark": {"id": "toy_words"},
        "harness": {"id": "openai_chat"},
        "model": {"id": "scripted", "params": {"script": str(script)}},
        "runtime": {"results_dir": str(deployed.home / name)},
        **more,
    }


def waiting(deployed: Deployed, name: str) -> tuple[dict[str, Any], Path]:
    """A request whose agent is right about the banana, once the file is there."""
    gate, script = deployed.home / f"{name}.gate", deployed.home / f"{name}.json"
    wait = {"name": "shell", "arguments": {"command": f"until [ -e {gate} ]; do sleep 0.2; done"}}
    script.write_text(
        json.dumps({"tasks": {"banana": [{"tool_calls": [wait]}, "banana"]}, "default": ["no"]})
    )
    model = {"id": "scripted", "params": {"script": str(script)}}
    return asked(deployed, name, model=model, harness={"id": "tool_agent"}), gate


def ended(deployed: Deployed, flow_run_id: str, state: str) -> None:
    until(lambda: deployed.state(flow_run_id) == state, f"it is not {state}")


def only_run(folder: Path) -> Path:
    (run_json,) = folder.glob("*/*/run.json")
    return run_json.parent


def records(run_dir: Path) -> dict[str, Any]:
    details = [json.loads(path.read_bytes()) for path in run_dir.glob("tasks/*/detail.json")]
    return {detail["task_id"]: detail["attempts"][0] for detail in details}


def headline(run_dir: Path) -> float:
    return float(json.loads((run_dir / "metrics.json").read_bytes())["headline"]["value"])


def of_run(deployed: Deployed, flow_run_id: str, *states: str) -> list[str]:
    """`sub-flow/attempt` of the run's task runs in one of these states."""
    parent = {"flow_runs": {"parent_flow_run_id": {"any_": [flow_run_id]}}}
    of_state = {"task_runs": {"state": {"name": {"any_": states}}}}
    found = deployed.post("/task_runs/filter", {**parent, **of_state})
    flows = deployed.post("/flow_runs/filter", parent)
    named = {flow["id"]: flow["name"] for flow in flows}
    return sorted(f"{named[run['flow_run_id']]}/{run['name']}" for run in found)


def unscored(deployed: Deployed, flow_run_id: str, folder: Path) -> list[str]:
    """What the run's page lists as without a score; its links lead to what failed."""
    asked = {"artifacts": {"flow_run_id": {"any_": [flow_run_id]}, "key": {"any_": ["unscored"]}}}
    found = deployed.post("/artifacts/filter", asked)
    rows = [row for one in found for row in json.loads(one["data"])]
    for row in rows:
        name, page = row["attempt"][1:-1].split("](")
        task_run_id = page.rpartition("/")[2]
        task_run = httpx.get(f"{deployed.url}/task_runs/{task_run_id}").json()
        assert (task_run["name"], task_run["state"]["name"]) == (name, "Failed")
        assert f"{row['code']} ({row['owner']})" in task_run["state"]["message"]
        assert (folder / row["files"]).is_dir()
    return [row["attempt"][1:].partition("]")[0] for row in rows]


def test_a_retry_judges_again_exactly_what_has_no_score(deployed: Deployed) -> None:
    write_rules(deployed.home, accept={}, crash=BROKEN)
    flow_run_id = deployed.start("evaluate", {"request": asked(deployed, "graders")})
    ended(deployed, flow_run_id, "Completed")
    run_dir = only_run(deployed.home / "graders")
    first = records(run_dir)
    assert {word for word, one in first.items() if one["status"] == "unscored"} == set(BROKEN)
    assert headline(run_dir) == 0.25
    failed = [f"scoring/{word} #1" for word in BROKEN]
    until(lambda: of_run(deployed, flow_run_id, "Failed") == failed, "other stages failed")
    assert unscored(deployed, flow_run_id, run_dir) == [f"{word} #1" for word in BROKEN]

    write_rules(deployed.home, accept={})
    deployed.retry(flow_run_id)
    until(lambda: headline(run_dir) != 0.25, "nothing was judged again")
    ended(deployed, flow_run_id, "Completed")
    assert only_run(deployed.home / "graders") == run_dir
    second = records(run_dir)
    assert {word: one["verdict"]["correct"] for word, one in second.items()} == {
        word: answer == word for word, answer in ANSWERS.items()
    }
    assert headline(run_dir) == 0.75
    once = [f"{stage}/{word} #1" for stage in ("attempts", "scoring") for word in ANSWERS]
    until(lambda: of_run(deployed, flow_run_id, "Completed") == once, "not each stage once")
    known = [*(f"attempts/{word} #1" for word in BROKEN), "scoring/blueberry #1"]
    until(lambda: of_run(deployed, flow_run_id, "Cached") == known, "other stages were known")
    assert second["blueberry"] == first["blueberry"]
    for word in BROKEN:
        assert second[word]["earlier_failures"] == [first[word]["failure"]]
        assert second[word]["usage"] == first[word]["usage"]
        assert second[word]["started_at"] == first[word]["started_at"]
    assert unscored(deployed, flow_run_id, run_dir) == []
    told = json.loads((run_dir / "run.json").read_bytes())
    assert (told["state"], len(told["continued_at"])) == ("finished", 1)
    page = httpx.get(f"{deployed.url}/flow_runs/{flow_run_id}").json()
    labels = page["labels"]
    assert (labels["agentcompass.exit_code"], labels["agentcompass.score"]) == (0, 0.75)
    assert page["state"]["message"] == "native@1 = 0.75 over 4 attempts"


def test_a_killed_run_is_retried_and_nothing_scored_is_done_again(deployed: Deployed) -> None:
    write_rules(deployed.home, accept={})
    request, gate = waiting(deployed, "killed")
    request["execution"] = {"task_concurrency": 1}
    flow_run_id = deployed.start("evaluate", {"request": request})
    folder = deployed.home / "killed"
    until(lambda: len([*folder.glob("*/*/tasks/*/detail.json")]) == 2, "it never came to banana")
    run_dir = only_run(folder)
    first = records(run_dir)
    os.kill(json.loads((run_dir / "lease.json").read_bytes())["pid"], signal.SIGKILL)

    def goes_on() -> bool:
        """Prefect may tell of the crash a second time, which takes an early retry back."""
        if deployed.state(flow_run_id) == "Crashed":
            deployed.retry(flow_run_id)
        return (run_dir / "metrics.json").exists()

    gate.touch()
    until(goes_on, "it did not go on")
    ended(deployed, flow_run_id, "Completed")
    second = records(run_dir)
    assert {word: one["status"] for word, one in second.items()} == dict.fromkeys(ANSWERS, "scored")
    assert second["banana"]["verdict"]["correct"]
    assert {word: second[word] for word in first} == first
    assert only_run(folder) == run_dir


def test_each_request_of_a_retried_launch_goes_on_in_its_folder(deployed: Deployed) -> None:
    write_rules(deployed.home, accept={}, crash=["banana"])
    request = asked(deployed, "launched")
    launch = deployed.start("launch", {"name": "two", "requests": [request, request]})
    ended(deployed, launch, "Failed")
    first = {path.parent for path in (deployed.home / "launched").glob("*/*/run.json")}
    assert [headline(run_dir) for run_dir in first] == [0.5, 0.5]

    write_rules(deployed.home, accept={})
    deployed.retry(launch)
    ended(deployed, launch, "Completed")
    second = {path.parent for path in (deployed.home / "launched").glob("*/*/run.json")}
    assert second == first
    assert [headline(run_dir) for run_dir in second] == [0.75, 0.75]


def test_a_run_that_cannot_go_on_is_refused_and_stays_as_it_is(deployed: Deployed) -> None:
    write_rules(deployed.home, accept={}, crash=["banana"])
    flow_run_id = deployed.start("evaluate", {"request": asked(deployed, "refused")})
    ended(deployed, flow_run_id, "Completed")
    run_dir = only_run(deployed.home / "refused")
    before = records(run_dir)

    def refusal() -> str:
        deployed.retry(flow_run_id)
        ended(deployed, flow_run_id, "Failed")
        state = httpx.get(f"{deployed.url}/flow_runs/{flow_run_id}").json()["state"]
        return str(state["message"])

    write_rules(deployed.home, accept={}, key="another")
    changed = f"task apple of run {run_dir.name} changed since; start a new run"
    assert changed in refusal()
    assert records(run_dir) == before

    write_rules(deployed.home, accept={})
    moved = run_dir.rename(deployed.home / "elsewhere")
    assert "is not here; retry it where the folder is, or start a new run" in refusal()
    assert records(moved) == before
    assert not [*deployed.home.glob("refused/*/*")]


def test_a_run_from_the_command_line_is_retried_by_a_worker(deployed: Deployed) -> None:
    """Also from a relative results folder, which is that of the place where it was started."""
    write_rules(deployed.home, accept={}, crash=["banana"])
    script = json.dumps(asked(deployed, "local")["model"]["params"])
    ran = deployed.shell(
        f"cd {deployed.home}; agentcompass run toy_words openai_chat scripted --progress none "
        f"--model-params {shlex.quote(script)} --results-dir local || test $? = 1"
    )
    assert headline(ran.run_dir) == 0.5
    flow_run_id = json.loads((ran.run_dir / "run.json").read_bytes())["prefect_flow_run_id"]

    write_rules(deployed.home, accept={})
    deployed.retry(flow_run_id)
    until(lambda: headline(ran.run_dir) == 0.75, "it did not go on")
    ended(deployed, flow_run_id, "Completed")
    assert only_run(deployed.home / "local") == ran.run_dir


@needs_engine
def test_cancel_in_the_ui_takes_the_containers_along(deployed: Deployed) -> None:
    sleep = {"name": "shell", "arguments": {"command": "sleep 300"}}
    script = deployed.home / "sleeping.json"
    script.write_text(json.dumps({"default": [{"tool_calls": [sleep]}]}))
    request = asked(
        deployed,
        "cancelled",
        model={"id": "scripted", "params": {"script": str(script)}},
        harness={"id": "tool_agent"},
        environment={"id": "docker", "params": {"setup": {"image": IMAGE}}},
    )
    flow_run_id = deployed.start("evaluate", {"request": request})

    def containers() -> int:
        run_ids = {path.parent.name for path in deployed.home.glob("cancelled/*/*/run.json")}
        labels = [one["Labels"] for one in client().api.containers(all=True)]
        return sum(bool(run_ids & set(label.values())) for label in labels)

    until(lambda: containers() == len(ANSWERS), "the agents never began")
    deployed.cancel(flow_run_id)
    until(lambda: containers() == 0, "a container outlived the Cancel", seconds=30)
    ended(deployed, flow_run_id, "Cancelled")
    run_dir = only_run(deployed.home / "cancelled")
    codes = {one["failure"]["code"] for one in records(run_dir).values()}
    assert codes == {"run.cancelled"}


def test_suspend_is_a_cancel_and_resume_begins_no_second_run(deployed: Deployed) -> None:
    write_rules(deployed.home, accept={})
    request, gate = waiting(deployed, "suspended")
    flow_run_id = deployed.start("evaluate", {"request": request})
    folder = deployed.home / "suspended"
    until(lambda: len([*folder.glob("*/*/tasks/*/detail.json")]) == 3, "the others never ended")
    first = records(only_run(folder))
    details = {"pause_reschedule": True, "pause_timeout": "2999-01-01T00:00:00Z"}
    suspended = {"type": "PAUSED", "name": "Suspended", "state_details": details}
    body = {"state": suspended, "force": True}
    deployed.post(f"/flow_runs/{flow_run_id}/set_state", body)
    ended(deployed, flow_run_id, "Cancelled")
    assert records(only_run(folder))["banana"]["failure"]["code"] == "run.cancelled"

    gate.touch()
    deployed.retry(flow_run_id)
    ended(deployed, flow_run_id, "Completed")
    second = records(only_run(folder))
    assert second["banana"]["verdict"]["correct"]
    assert {word: second[word] for word in first} == first


def test_a_run_outlives_its_worker(deployed: Deployed) -> None:
    """The last test here: the worker does not come back, and nobody reads the run's output."""
    write_rules(deployed.home, accept={})
    request, gate = waiting(deployed, "orphaned")
    flow_run_id = deployed.start("evaluate", {"request": request})
    folder = deployed.home / "orphaned"
    until(lambda: len([*folder.glob("*/*/tasks/*/detail.json")]) == 3, "the others never ended")
    os.kill(deployed.worker_pid, signal.SIGKILL)
    gate.touch()
    ended(deployed, flow_run_id, "Completed")
    assert headline(only_run(folder)) == 0.25
