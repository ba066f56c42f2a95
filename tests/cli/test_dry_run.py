"""`--dry-run` shows the plan, asks what preflight asks, and leaves nothing behind."""

import json
import re
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
    assert re.search(r" quickstart \(version \d+, built in\)$", lines["benchmark"])
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


def test_a_run_to_reuse_that_is_not_there_is_told_before_anything_is_asked(
    cli: Cli, home: Path, endpoint: ModelServer
) -> None:
    words = ("run", "quickstart", "tool_agent", "m", "--model-base-url", endpoint.base_url)
    for more in (("--dry-run",), ()):
        answer = cli(*words, "--model-api-key", "none", "--reuse=nosuch", *more)
        assert answer.code == 2
        assert answer.complaint.startswith("reuse: no run 'nosuch' in ")
    assert not endpoint.requests
    there = home / "results" / "scripted__quickstart__oracle" / "there"
    there.mkdir(parents=True)
    (there / "run.json").write_text("{}", encoding="utf-8")
    assert cli(*PLAIN, "--reuse=there").code == 0
    assert cli(*PLAIN, "--reuse=latest").code == 0
    assert "did you mean 'there'" in cli(*PLAIN, "--reuse=ther").complaint


def test_every_json_value_may_stand_in_a_file(cli: Cli, home: Path) -> None:
    (home / "patterns.json").write_text('["overloaded"]', encoding="utf-8")
    (home / "protocols.yaml").write_text("[openai-chat, openai-responses]", encoding="utf-8")
    (home / "object.json").write_text("{}", encoding="utf-8")
    answer = cli(
        *PLAIN, "--retry-pattern-list", "@patterns.json", "--model-api-protocol",
        "@protocols.yaml", "--json",
    )  # fmt: skip
    request = json.loads(answer.out)["plan"]["request"]
    assert request["execution"]["retry_pattern_list"] == ["overloaded"]
    assert request["model"]["api_protocol"] == ["openai-chat", "openai-responses"]
    for option in ("--retry-pattern-list", "--model-api-protocol"):
        assert cli(*PLAIN, option, "@object.json").code == 2
        assert "no such file" in cli(*PLAIN, option, "@nope.json").complaint
