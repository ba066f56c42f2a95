"""`agentcompass analysis`: a run's folder, wherever it stands, analysed again."""

import json
import shutil
from pathlib import Path

import pytest

from agentcompass.cli import run_options
from agentcompass.components.configuration.layers import users_file
from agentcompass.components.contracts.attempt import AttemptKey
from tests.cli.conftest import Cli
from tests.components.analyzers.formats import Run, attempt
from tests.components.analyzers.run_folder import finished_run
from tests.standins.model_endpoint import ModelServer
from tests.standins.model_script import Reply


@pytest.fixture
def run_dir(home: Path) -> str:
    first = attempt("a/b", "codex", [Run("git log --all", "commit 123")], value=True)
    finished_run(home / "run", [first, attempt("c", "tool_agent", [Run("ls", "x")] * 5)])
    return str(home / "run")


def test_a_copy_elsewhere_is_analysed(cli: Cli, run_dir: str, tmp_path: Path) -> None:
    copy = tmp_path / "elsewhere"
    shutil.move(run_dir, copy)
    answer = cli("analysis", str(copy))
    assert (answer.code, answer.err) == (0, "")
    lines = answer.out.splitlines()
    assert lines[0] == "2 attempts, 2 findings"
    assert lines[-1] == str(copy / "analysis" / "analysis.md")
    findings = json.loads((copy / "analysis" / "history_peeking.json").read_bytes())["findings"]
    assert [(f["task_id"], f["attempt"], f["steps"]) for f in findings] == [("a/b", 1, [2])]


def test_an_analysis_is_replaced_only_when_asked_to(cli: Cli, run_dir: str) -> None:
    assert cli("analysis", run_dir).code == 0
    page = Path(run_dir, "analysis", "analysis.md")
    before, note = page.read_bytes(), page.with_name("my-notes.json")
    note.write_text('{"mine": 1}', encoding="utf-8")
    refused = cli("analysis", run_dir, "--analysis-params", '{"analyzers": ["limits"]}')
    assert refused.code == 2
    assert "is not empty; pass --override" in refused.complaint
    assert page.read_bytes() == before
    params = '{"analyzers": ["repetition"], "repetition": {"calls": 6}}'
    done = cli("analysis", run_dir, "--override", "--analysis-params", params)
    assert (done.code, done.out.splitlines()[0]) == (0, "2 attempts, 0 findings")
    names = sorted(path.name for path in page.parent.iterdir())
    assert names == ["analysis.md", "my-notes.json", "repetition.json"]


def test_output_elsewhere_leaves_the_run_as_it_was(cli: Cli, run_dir: str, home: Path) -> None:
    before = sorted(Path(run_dir).rglob("*"))
    answer = cli("analysis", run_dir, "--output", "new/place", "--json")
    assert answer.code == 0
    document = json.loads(answer.out)
    assert document["folder"] == str(home / "new/place")
    assert document["attempts"] == 2
    assert document["analyzers"]["repetition"] == {"findings": 1, "serious": 0}
    assert [item["attempts"] for item in document["to_do"]] == [1, 1]
    assert sorted(Path(run_dir).rglob("*")) == before
    assert (home / "new/place/analysis.md").is_file()


def test_wrong_input_is_one_line(cli: Cli, run_dir: str, home: Path) -> None:
    cases = {
        ("nowhere",): "RUN_DIR: ",
        (str(home),): "RUN_DIR: ",
        (run_dir, "--analysis-params", '{"limit": {}}'): "analysis-params.limit: no such analyzer",
        (run_dir, "--output", str(Path(run_dir, "run.json"))): "output: ",
        (): "RUN_DIR: missing",
        (run_dir, "more"): "command line: 1 argument too many",
    }
    for arguments, start in cases.items():
        answer = cli("analysis", *arguments)
        assert answer.code == 2, arguments
        assert answer.complaint.startswith(start), answer.err
    assert not Path(run_dir, "analysis").exists()
    assert f"did you mean {run_dir}?" in cli("analysis", str(home)).complaint


def test_a_damaged_detail_is_named(cli: Cli, run_dir: str) -> None:
    Path(run_dir, "tasks", "c", "detail.json").write_text("{", encoding="utf-8")
    answer = cli("analysis", run_dir)
    assert answer.code == 2
    assert "tasks/c/detail.json: not JSON" in answer.complaint
    assert not Path(run_dir, "analysis", "analysis.md").exists()


def test_what_was_left_out_is_told(cli: Cli, run_dir: str) -> None:
    path = Path(run_dir, "tasks", "c", "attempt-1", "trajectory.json")
    path.write_text("{", encoding="utf-8")
    answer = cli("analysis", run_dir)
    assert answer.code == 0
    assert "left out" in answer.complaint
    assert str(AttemptKey(task_id="c", index=1)) not in answer.out


def test_configuration_lies_under_the_command_line(cli: Cli, run_dir: str, home: Path) -> None:
    Path("agentcompass.yaml").write_text("analyzers: {repetition: {calls: 6}}\n", encoding="utf-8")
    assert cli("analysis", run_dir, "--output", "a").out.startswith("2 attempts, 1 findings")
    params = '{"repetition": {"calls": 3}}'
    answer = cli("analysis", run_dir, "--output", "b", "--analysis-params", params)
    assert answer.out.startswith("2 attempts, 2 findings")


def test_run_takes_the_same_parameters_and_refuses_them_before_anything_runs(cli: Cli) -> None:
    answer = cli("run", "quickstart", "idle", "scripted", "--analysis-params", '{"timin": {}}')
    assert answer.code == 2
    assert answer.complaint.startswith("analysis-params.timin: no such analyzer; did you mean")
    names = [option.name for option in run_options.OPTIONS]
    assert "--enable-analysis/--no-enable-analysis" in names


ANSWER = '{"verdict": "refuted", "use": "looked", "reason": "It listed commits."}'


def asking(url: str, **more: object) -> str:
    model = {"id": "judge-1", "base_url": url, **more}
    return json.dumps({"model_check": {"model": model}})


def test_a_model_is_asked_when_it_is_asked_for(
    cli: Cli, run_dir: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JUDGE_KEY", "judge-secret-1")
    with ModelServer(lambda _: Reply(text=ANSWER)) as endpoint:
        params = asking(endpoint.base_url, api_key={"env": "JUDGE_KEY"})
        answer = cli("analysis", run_dir, "--analysis-params", params)
        assert (answer.code, answer.err) == (0, "")
        told = "model check by judge-1: 1 of 1 suspicious finding answered: 1 refuted. It took 1 "
        assert answer.out.splitlines()[-2].startswith(told)
        assert answer.out.splitlines()[0] == "2 attempts, 2 findings"
        page = Path(run_dir, "analysis", "analysis.md").read_text(encoding="utf-8")
        assert "- **refuted** (looked): `It listed commits.`" in page
        again = cli("analysis", run_dir, "--override", "--json", "--analysis-params", params)
        document = json.loads(again.out)["model_check"]
        assert (document["remembered"], document["usage"]["calls"]) == (1, 0)
    assert [info.headers["authorization"] for info in endpoint.requests] == [
        "Bearer judge-secret-1"
    ]
    files = Path(run_dir, "analysis").iterdir()
    assert all("judge-secret-1" not in file.read_text(encoding="utf-8") for file in files)
    without = cli("analysis", run_dir, "--override", "--json")
    assert json.loads(without.out)["model_check"] is None


def test_a_check_without_an_answer_is_exit_code_1(cli: Cli, run_dir: str) -> None:
    params = asking("http://127.0.0.1:9/v1", params={"max_retry_seconds": 0})
    answer = cli("analysis", run_dir, "--analysis-params", params)
    assert answer.code == 1
    assert answer.complaint.startswith("model check: model.unavailable: ")
    assert answer.out.splitlines()[-1].endswith("analysis.md")


@pytest.mark.parametrize(
    "command", [("analysis", "RUN_DIR"), ("run", "quickstart", "idle", "scripted")]
)
def test_a_check_that_cannot_be_made_is_refused_before_anything_is_done(
    cli: Cli, run_dir: str, command: tuple[str, ...]
) -> None:
    before = sorted(Path(run_dir).rglob("*"))
    words = [run_dir if word == "RUN_DIR" else word for word in command]
    place = "analysis-params.model_check.model.api_key: "
    plain = cli(*words, "--analysis-params", asking("http://127.0.0.1:9/v1", api_key="sk-plain"))
    assert plain.code == 2
    assert "sk-plain" not in plain.err
    assert plain.complaint.startswith(place + "would be stored with the run")
    unset = asking("http://127.0.0.1:9/v1", api_key={"env": "NOT_SET_ANYWHERE"})
    answer = cli(*words, "--analysis-params", unset)
    assert answer.code == 2
    assert answer.complaint.startswith(place + "environment variable NOT_SET_ANYWHERE is not")
    assert sorted(Path(run_dir).rglob("*")) == before


def test_the_user_s_configuration_file_names_the_key(
    cli: Cli, run_dir: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JUDGE_KEY", "judge-secret-1")
    with ModelServer(lambda _: Reply(text=ANSWER)) as endpoint:
        for written in ("{env: JUDGE_KEY}", '"${JUDGE_KEY}"'):
            model = f"{{id: judge-1, base_url: '{endpoint.base_url}', api_key: {written}}}"
            own = users_file()
            own.parent.mkdir(parents=True, exist_ok=True)
            own.write_text(
                f"execution: {{analysis_params: {{model_check: {{model: {model}}}}}}}\n",
                encoding="utf-8",
            )
            answer = cli("analysis", run_dir, "--output", f"by {written[1:4]}")
            assert (answer.code, answer.err) == (0, "")
    keys = [info.headers["authorization"] for info in endpoint.requests]
    assert keys == ["Bearer judge-secret-1"] * 2
