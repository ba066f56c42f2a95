"""`--dry-run` shows the plan, asks what preflight asks, and leaves nothing behind."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import Cli
from tests.standins.model_endpoint import ModelServer
from tests.standins.model_script import Reply

KEY = "sk-never-shown-0123456789"
PLAIN = ("run", "quickstart", "oracle", "scripted", "--dry-run")


@pytest.fixture
def endpoint() -> Iterator[ModelServer]:
    with ModelServer(lambda request: Reply(text="4")) as served:
        yield served


def test_the_plan_names_components_versions_tasks_and_limits(cli: Cli, home: Path) -> None:
    answer = cli(
        *PLAIN, "--k", "3", "--benchmark-params", '{"limit": 2}', "--execution-params",
        '{"run_timeout_seconds": 7}', "--run-id", "first",
    )  # fmt: skip
    assert (answer.code, answer.err) == (0, "")
    lines = {line.split(maxsplit=1)[0]: line for line in answer.out.splitlines()}
    assert lines["benchmark"].endswith("quickstart (version 1, built in)")
    assert lines["environment"].split()[1] == "host_process"
    assert lines["limit"].split() == ["limit", "2", "(set)"]
    assert "2 of " in lines["tasks"]
    assert "6 (k=3, avg)" in lines["attempts"]
    assert "run 7 s" in lines["deadlines"]
    assert lines["results"].endswith("results/scripted__quickstart__oracle/first")
    assert list(home.iterdir()) == []


def test_json_is_the_whole_plan(cli: Cli) -> None:
    document = json.loads(cli(*PLAIN, "--json").out)
    assert document["exit_code"] == 0
    assert document["problems"] == []
    assert len(document["tasks"]) == document["planned_attempts"] == document["dataset"]["tasks"]
    assert document["plan"]["harness"]["id"] == "oracle"


def test_secrets_are_masked(cli: Cli, questions: str, endpoint: ModelServer) -> None:
    for more in ([], ["--json"]):
        answer = cli(
            "run", "gsm8k", "openai_chat", "m", "--dry-run", "--benchmark-params", questions,
            "--model-base-url", endpoint.base_url, "--model-api-key", KEY,
            "--model-params", json.dumps({"headers": {"X-Token": "tok-123456"}}),
            "--env-params", json.dumps({"env": {"REPEATED": KEY}}), *more,
        )  # fmt: skip
        assert answer.code == 0, answer.err
        assert KEY not in answer.out + answer.err
        assert "tok-123456" not in answer.out + answer.err


def test_what_preflight_finds_comes_after_the_plan(cli: Cli, questions: str) -> None:
    arguments = (
        "run", "gsm8k", "openai_chat", "m", "--dry-run", "--benchmark-params", questions,
        "--model-base-url", "http://127.0.0.1:9/v1", "--model-api-key", KEY,
    )  # fmt: skip
    answer = cli(*arguments)
    assert answer.code == 3
    assert answer.out.startswith("benchmark ")
    assert "127.0.0.1:9" in answer.complaint
    document = json.loads(cli(*arguments, "--json").out)
    assert document["exit_code"] == 3
    assert len(document["problems"]) == 1
