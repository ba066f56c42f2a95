"""`agentcompass config show|validate|init`, and --config on a run."""

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Cli


def test_show_names_each_value_and_its_file_and_masks_secrets(cli: Cli, home: Path) -> None:
    (home / "agentcompass.yaml").write_text(
        "execution: {task_concurrency: 3}\n"
        "environments: {host_process: {env: {MY_TOKEN: abcdef, PLAIN: x}}}\n"
    )
    (home / "more.yaml").write_text("execution: {task_concurrency: 4}")
    answer = cli("config", "show", "--origins", "--config", "more.yaml")
    assert answer.code == 0, answer.err
    assert "abcdef" not in answer.out
    lines = {line.split()[0]: line.split()[1:] for line in answer.out.splitlines()}
    assert lines["execution.task_concurrency"] == ["4", "more.yaml"]
    assert lines["environments.host_process.env.PLAIN"][0] == '"x"'
    document = json.loads(cli("config", "show", "--json", "--origins").out)
    assert document["values"]["execution"] == {"task_concurrency": 3}
    assert document["origins"]["execution.task_concurrency"].endswith("agentcompass.yaml")


def test_show_masks_what_is_a_secret_by_its_value_or_its_place(
    cli: Cli, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_KEY", "value-of-some-key")
    (home / "more.yaml").write_text(
        """
environments:
  host_process:
    env: {HTTPS_PROXY: "http://me:canary@h:1", X: ghp_canary0123456789abcdef, Y: "http://h:1/x"}
    setup: {commands: ["curl https://me:canary@h/x", "make"]}
execution:
  analysis_params:
    model_check:
      model:
        id: m
        base_url: http://h/v1?code=canary
        api_key: {env: SOME_KEY}
        params: {headers: {X-Title: canary, X-Own: "Bearer ${SOME_KEY}"}}
"""
    )
    for flags in ((), ("--json",)):
        answer = cli("config", "show", "--config", "more.yaml", *flags)
        assert "canary" not in answer.out + answer.err
        for shown in ("http://h:1/x", "make", "${SOME_KEY}", "Bearer ${SOME_KEY}"):
            assert shown in answer.out


def test_init_writes_a_file_that_is_in_order_and_never_over_one(cli: Cli, home: Path) -> None:
    assert cli("config", "init").code == 0
    assert "agentcompass.yaml: in order" in cli("config", "validate").out
    text = (home / "agentcompass.yaml").read_text()
    answer = cli("config", "init")
    assert answer.code == 4
    assert "left as it is" in answer.complaint
    assert (home / "agentcompass.yaml").read_text() == text
    every_line = "\n".join(
        line.removeprefix("# ")
        for line in text.splitlines()
        if line.startswith(("# e", "# r", "# b", "#  "))
    )
    (home / "all.yaml").write_text(every_line)
    answer = cli("config", "validate", "all.yaml")
    assert answer.code in (0, 2), answer.err
    assert answer.code == 0 or "HTTPS_PROXY is not set" in answer.err


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("execution: {task_concurency: 1}", "execution.task_concurency: unknown key; did you mean"),
        ("benchmarks: {quickstrat: {}}", "benchmarks.quickstrat: no benchmark named 'quickstrat'"),
        ("benchmarks: {quickstart: {limt: 1}}", "benchmarks.quickstart.limt: unknown key"),
        ("harnesses: {oracle: {limt: 1}}", "harnesses.oracle.limt: unknown key"),
        ("runtime: {results_dir: 3}", "runtime.results_dir: "),
        ("runtime: {provider_limits: {dockr: 4}}", "runtime.provider_limits: no provider 'dockr'"),
        ("runtime: {env_open_qps: {dockr: 4}}", "runtime.env_open_qps: no provider 'dockr'"),
    ],
)
def test_what_is_wrong_stops_a_run_and_names_the_file(
    cli: Cli, home: Path, text: str, complaint: str
) -> None:
    (home / "agentcompass.yaml").write_text(text)
    for arguments in (
        ("config", "validate"),
        ("run", "quickstart", "oracle", "scripted", "--dry-run"),
    ):
        answer = cli(*arguments)
        assert answer.code == 2
        assert complaint in answer.complaint
        assert "agentcompass.yaml" in answer.complaint


def test_the_command_line_wins_and_what_is_saved_is_what_applies(cli: Cli, home: Path) -> None:
    (home / "agentcompass.yaml").write_text(
        "execution: {task_concurrency: 3, attempts: {k: 2}}\n"
        "benchmarks: {quickstart: {limit: 2, seed: 5}}\n"
        "runtime: {results_dir: elsewhere}\n"
    )
    document = json.loads(
        cli(
            "run", "quickstart", "oracle", "scripted", "--dry-run", "--json",
            "--task-concurrency", "7", "--benchmark-params", '{"seed": 6}',
        ).out
    )  # fmt: skip
    execution = document["plan"]["request"]["execution"]
    assert (execution["task_concurrency"], execution["attempts"]["k"]) == (7, 2)
    params = document["plan"]["benchmark"]["params"]
    assert (params["limit"], params["seed"]) == (2, 6)
    assert len(document["tasks"]) == 2
    assert "/elsewhere/" in document["results"]
