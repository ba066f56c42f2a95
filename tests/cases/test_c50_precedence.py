"""What the user said reaches the model, whoever said it last wins, and nothing is wiped or dropped
in silence (C50).

Elsewhere: every pair of layers against mapping, list, scalar and null in
tests/components/configuration/test_layers.py; misspelt options in tests/cli/test_wrong_input.py;
parameters that a protocol lacks in tests/components/models/test_parameters.py.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Cli, cli, home  # noqa: F401 - fixtures
from tests.flows.program import agentcompass
from tests.standins.model_endpoint import ModelServer
from tests.standins.model_script import Reply

DRY = ("run", "quickstart", "oracle", "scripted", "--dry-run", "--json")
SECRET = "zz-secret-of-the-tests-0123456789"


@pytest.fixture(scope="module")
def endpoint() -> Iterator[ModelServer]:
    with ModelServer(lambda request: Reply(text="#### 2")) as served:
        yield served


def model_words(endpoint: ModelServer) -> list[str]:
    return ["--model-base-url", endpoint.base_url, "--model-api-key", SECRET]


@pytest.mark.parametrize(
    ("harness", "option", "value", "complaint"),
    [
        ("openai_chat", "--model-params", '{"temprature": 0}', "did you mean 'temperature'"),
        ("openai_chat", "--model-params", '{"reasoning": {"efort": "low"}}', "'effort'"),
        ("tool_agent", "--harness-params", '{"step_limt": 3}', "did you mean 'step_limit'"),
        # mini_swe_agent's names
        ("tool_agent", "--harness-params", '{"command_timeout": 3}', "'command_timeout_seconds'"),
        ("tool_agent", "--harness-params", '{"instance_template": "x"}', "unknown key"),
        ("openai_chat", "--harness-params", '{"step_limit": 3}', "unknown key"),
        # docker's name
        ("tool_agent", "--env-params", '{"pull": "never"}', "unknown key"),
    ],
)
def test_a_typo_and_a_key_of_another_component_are_refused(
    cli: Cli,  # noqa: F811
    endpoint: ModelServer,
    harness: str,
    option: str,
    value: str,
    complaint: str,
) -> None:
    calls = len(endpoint.requests)
    answer = cli("run", "quickstart", harness, "m", *model_words(endpoint), option, value)
    assert answer.code == 2
    assert answer.complaint.startswith(f"{option[2:]}.")
    assert complaint in answer.complaint
    assert len(endpoint.requests) == calls


def test_what_a_protocol_would_drop_is_refused(
    cli: Cli,  # noqa: F811
    endpoint: ModelServer,
) -> None:
    answer = cli(
        "run", "quickstart", "openai_chat", "m", *model_words(endpoint),
        "--model-api-protocol", "anthropic-messages", "--model-params", '{"seed": 1}',
    )  # fmt: skip
    assert answer.code == 2
    assert "model-params.seed: anthropic-messages has no such parameter" in answer.complaint


@pytest.mark.usefixtures("prefect_home")
def test_the_body_at_the_endpoint_is_the_saved_configuration(
    tmp_path: Path, endpoint: ModelServer
) -> None:
    asked = {
        "temperature": 0, "top_p": 0.5, "max_tokens": 77, "seed": 0, "stop": ["END", "a,b"],
        "extra_body": {"options": {"num_ctx": 32768, "nested": {"on": None}}, "min_p": 0.1},
    }  # fmt: skip
    row = {"question": "What is 1 + 1?", "answer": "#### 2"}
    (tmp_path / "q.jsonl").write_text(json.dumps(row) + "\n")
    ended = agentcompass(
        "run", "gsm8k", "openai_chat", "m", *model_words(endpoint),
        "--benchmark-params", '{"data_path": "q.jsonl"}', "--model-params", json.dumps(asked),
        "--progress", "none", "--json", cwd=tmp_path,
    )  # fmt: skip
    assert ended.exit_code == 0, ended.stderr
    text = (Path(ended.document["run_dir"]) / "run.json").read_text(encoding="utf-8")
    saved = json.loads(text)["plan"]["model_params"]
    body = dict(endpoint.requests[-1].body)
    assert body.pop("messages")[0]["role"] == "user"
    assert body.pop("model") == "m"
    assert body.pop("stream", False) is False
    sampling = {name: saved[name] for name in asked if name != "extra_body"}
    assert body == {**sampling, **saved["extra_body"]}  # and nothing beside
    assert {name: saved[name] for name in asked} == asked
    assert SECRET not in text + ended.stdout + ended.stderr
    assert endpoint.requests[-1].headers["authorization"] == f"Bearer {SECRET}"


def execution(answer: Any) -> dict[str, Any]:
    assert answer.code == 0, answer.err
    settings: dict[str, Any] = json.loads(answer.out)["plan"]["request"]["execution"]
    return settings


def test_each_layer_wins_over_those_below_and_wipes_no_sibling(
    cli: Cli,  # noqa: F811
    home: Path,  # noqa: F811
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def said() -> tuple[int, str, float, int]:
        found = execution(cli(*DRY, *typed))
        limits = found["artifact_limits"]
        return (*found["attempts"].values(), limits["max_mb"], limits["max_files"])

    typed: list[str] = []
    assert said() == (1, "avg", 64.0, 1000)
    user = tmp_path / "config" / "agentcompass" / "config.yaml"
    user.parent.mkdir(parents=True)
    user.write_text("execution: {attempts: {k: 2, strategy: pass}, artifact_limits: {max_mb: 5}}")
    assert said() == (2, "pass", 5.0, 1000)
    monkeypatch.setenv("TRIES", "3")
    (home / "agentcompass.yaml").write_text("execution: {attempts: {k: {env: TRIES}}}")
    assert said() == (3, "pass", 5.0, 1000)
    (home / "more.yaml").write_text(
        "execution: {attempts: {k: 4}, artifact_limits: {max_files: 7}}"
    )
    typed += ["--config", "more.yaml"]
    assert said() == (4, "pass", 5.0, 7)
    typed += ["--execution-params", '{"attempts": {"k": 5}}']
    assert said() == (5, "pass", 5.0, 7)
    typed += ["--k", "6"]
    assert said() == (6, "pass", 5.0, 7)


def test_one_nested_value_keeps_its_siblings_in_every_component(
    cli: Cli,  # noqa: F811
    home: Path,  # noqa: F811
) -> None:
    (home / "mine.yaml").write_text(
        "environments: {host_process: {env: {A: a, B: b}, setup: {commands: [one, two]}}}\n"
        "harnesses: {tool_agent: {step_limit: 9, observation_limit_chars: 500}}\n"
    )
    answer = cli(
        "run", "quickstart", "tool_agent", "scripted", "--dry-run", "--json",
        "--config", "mine.yaml",
        "--env-params", '{"env": {"B": "c"}, "setup": {"commands": ["three"]}}',
        "--harness-params", '{"step_limit": 3}',
    )  # fmt: skip
    assert answer.code == 0, answer.err
    plan = json.loads(answer.out)["plan"]
    assert plan["environment"]["params"]["env"] == {"A": "a", "B": "c"}
    assert plan["environment"]["params"]["setup"]["commands"] == ["three"]  # a list replaces
    found = plan["harness"]["params"]
    assert (found["step_limit"], found["observation_limit_chars"]) == (3, 500)


@pytest.mark.parametrize("command", [DRY, ("config", "show"), ("config", "validate")])
@pytest.mark.parametrize(
    "value", ['"${NOT_SET_HERE}"', "{env: NOT_SET_HERE}", '"x-${NOT_SET_HERE}"']
)
def test_a_variable_that_is_not_set_is_an_error_that_names_file_key_and_variable(
    cli: Cli,  # noqa: F811
    home: Path,  # noqa: F811
    command: tuple[str, ...],
    value: str,
) -> None:
    (home / "agentcompass.yaml").write_text(f"runtime: {{results_dir: {value}}}")
    answer = cli(*command)
    assert answer.code == 2
    for words in ("agentcompass.yaml", "runtime.results_dir", "NOT_SET_HERE is not set"):
        assert words in answer.complaint


def test_an_empty_variable_is_empty_and_never_a_default(
    cli: Cli,  # noqa: F811
    home: Path,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("EMPTY", "")
    (home / "agentcompass.yaml").write_text(
        "environments: {host_process: {env: {A: '${EMPTY}', B: 'x${EMPTY}y'}}}"
    )
    shown = json.loads(cli("config", "show", "--json").out)["values"]
    variables = shown["environments"]["host_process"]["env"]
    assert variables["A"] == "${EMPTY}"  # read when a sandbox opens
    (home / "agentcompass.yaml").write_text("execution: {task_concurrency: {env: EMPTY}}")
    answer = cli(*DRY)
    assert answer.code == 2
    assert "execution.task_concurrency" in answer.complaint


def test_the_configuration_is_shown_with_its_origins_and_without_secrets(
    cli: Cli,  # noqa: F811
    home: Path,  # noqa: F811
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("CASE_TOKEN", SECRET)
    user = tmp_path / "config" / "agentcompass" / "config.yaml"
    user.parent.mkdir(parents=True)
    user.write_text(
        "execution: {task_concurrency: 2, attempts: {k: 2}}\n"
        f"environments: {{host_process: {{env: {{PLAIN: p, API_KEY: {SECRET}}}}}}}\n"
    )
    (home / "agentcompass.yaml").write_text(
        "execution: {attempts: {k: 3}}\n"
        "environments: {host_process: {env: {CASE_TOKEN: '${CASE_TOKEN}'}}}\n"
    )
    answer = cli("config", "show", "--origins")
    lines = {line.split()[0]: line for line in answer.out.splitlines()}
    assert lines["execution.task_concurrency"].endswith(str(user))
    assert lines["execution.attempts.k"].endswith("agentcompass.yaml")
    assert '"***"' in lines["environments.host_process.env.API_KEY"]
    assert '"${CASE_TOKEN}"' in lines["environments.host_process.env.CASE_TOKEN"]
    assert SECRET not in answer.out + answer.err
    for form in ((), ("--json",)):
        plan = cli("run", "quickstart", "tool_agent", "scripted", "--dry-run", *form)
        assert plan.code == 0, plan.err
        assert "CASE_TOKEN" in plan.out
        assert SECRET not in plan.out + plan.err
