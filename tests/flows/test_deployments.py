"""docs/nightly.md does what it says, on a fresh server: deploy, work, submit, the next night."""

import json
import re
import signal
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from tests.flows.deployed import NIGHT, SUBMIT, Deployed, busy, deployed_in, until


@pytest.fixture(scope="module")
def deployed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployed]:
    with deployed_in(tmp_path_factory.mktemp("nightly"), {}) as world:
        yield world


def test_the_submitted_run_is_the_run(deployed: Deployed) -> None:
    ended = deployed.shell(SUBMIT)
    assert ended.exit_code == 0, ended.stderr
    assert ended.run_dir.is_relative_to(deployed.home / "agentcompass-results")
    metrics = json.loads((ended.run_dir / "metrics.json").read_bytes())
    assert metrics["headline"]["value"] == 1.0
    assert "over planned attempts: 13 tasks" in ended.stdout
    assert "/13 attempts done" in ended.stderr
    told = json.loads((ended.run_dir / "run.json").read_bytes())
    flow_run = httpx.get(f"{deployed.url}/flow_runs/{told['prefect_flow_run_id']}").json()
    assert flow_run["name"] == "quickstart · oracle · scripted"
    assert {"benchmark:quickstart", "harness:oracle", "model:scripted"} <= set(flow_run["tags"])
    log = (ended.run_dir / "logs/run.log").read_text(encoding="utf-8")
    assert "scored 1.0" in log
    assert flow_run["state"]["message"] == "native@1 = 1 over 13 attempts"
    shown = artifacts(deployed, flow_run["id"])
    assert set(shown) == {"progress", "score", "summary", "analysis"}
    assert shown["progress"]["data"] == 100.0
    assert "13/13 attempts done" in shown["progress"]["description"]
    summary = shown["summary"]["data"]
    assert "How to repeat" in summary
    pages = dict(re.findall(r"\[(\w+)\]\([^)]*/flow-run/([^)/]*)\)", summary))
    for name, sub_flow in pages.items():
        assert httpx.get(f"{deployed.url}/flow_runs/{sub_flow}").json()["name"] == name
    assert set(pages) == {"attempts", "scoring"}


def artifacts(deployed: Deployed, flow_run_id: str) -> dict[str, Any]:
    asked = {"artifacts": {"flow_run_id": {"any_": [flow_run_id]}}}
    found = deployed.post("/artifacts/filter", asked)
    assert len({one["key"] for one in found}) == len(found)
    return {one["key"]: one for one in found}


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
    launch = deployed.start("launch", {"name": "two", "requests": [request, request]})
    until(lambda: busy() == 4, "the agents never began")
    deployed.cancel(launch)
    until(lambda: busy() == 0, "an agent outlived the Cancel", seconds=30)
    until(lambda: deployed.state(launch) == "Cancelled", "it is not Cancelled")
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
        ("none", 3, "the endpoint is unreachable"),
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
    for model in ("ExecutionSettings", "RuntimeSettings", "ModelSpec"):
        properties = definitions[model]["properties"]
        undescribed = [n for n, f in properties.items() if not f.get("description")]
        assert not undescribed, f"{model}: {undescribed}"
    assert deployment["global_concurrency_limit"]["limit"] == 2
    assert "agentcompass" in deployment["tags"]


@pytest.mark.parametrize(
    ("key", "status"),
    [
        ({"env": "MODEL_API_KEY"}, 201),
        ({"env": "MODEL_API_KEY", "block": ""}, 201),
        ({"block": "my-key"}, 201),
        ({"env": "none"}, 201),
        (None, 201),
        ({"env": "sk-proj-Ab3"}, 409),
        ({"env": "gsk_4bcDEF"}, 409),
        ({"block": "sk-0123456789abcdef"}, 409),
    ],
)
def test_a_key_typed_into_the_form_is_not_stored(
    deployed: Deployed, key: dict[str, str] | None, status: int
) -> None:
    found = httpx.get(f"{deployed.url}/deployments/name/evaluate/evaluate").raise_for_status()
    request = {
        "benchmark": {"id": "quickstart"},
        "harness": {"id": "idle"},
        "model": {"id": "scripted", "api_key": key},
    }
    later = {"type": "SCHEDULED", "state_details": {"scheduled_time": "2999-01-01T00:00:00Z"}}
    made = httpx.post(
        f"{deployed.url}/deployments/{found.json()['id']}/create_flow_run",
        json={"parameters": {"request": request}, "state": later},
    )
    assert made.status_code == status, made.text


def test_a_third_run_waits_for_one_of_the_two_places(deployed: Deployed) -> None:
    request = {
        "benchmark": {"id": "quickstart", "params": {"limit": 1}},
        "harness": {"id": "tool_agent"},
        "model": {"id": "scripted", "params": {"script": deployed.slow_script()}},
        "runtime": {"results_dir": str(deployed.home / "three")},
    }
    runs = [deployed.start("evaluate", {"request": request}) for _ in range(3)]
    until(lambda: busy() == 4, "two never worked")

    def waiting() -> list[str]:
        return [one for one in runs if deployed.state(one) == "AwaitingConcurrencySlot"]

    until(lambda: len(waiting()) == 1, "none waited")
    assert busy() == 4
    (third,) = waiting()
    first = next(one for one in runs if one != third)
    deployed.cancel(first)
    until(lambda: deployed.state(third) == "Running", "it did not take the place")
    for one in runs:
        if one != first:
            deployed.cancel(one)
    until(lambda: {deployed.state(one) for one in runs} == {"Cancelled"}, "they did not end")
    assert busy() == 0
