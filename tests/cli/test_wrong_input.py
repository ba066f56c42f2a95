"""Whatever a user got wrong: exit 2, one line that names it, nothing written, nobody called."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentcompass.cli import run_execution
from tests.cli.conftest import Cli
from tests.standins.model_endpoint import ModelServer
from tests.standins.model_script import Reply

KEY = "sk-never-shown-0123456789"


@pytest.fixture(scope="module")
def endpoint() -> Iterator[ModelServer]:
    with ModelServer(lambda request: Reply(text="#### 2")) as served:
        yield served


@pytest.fixture
def refused(  # type: ignore[no-untyped-def]
    cli: Cli, questions: str, home: Path, endpoint: ModelServer, monkeypatch: pytest.MonkeyPatch
):
    """A good command line with something changed; the complaint."""
    monkeypatch.setattr(run_execution, "carry_out", lambda *_: pytest.fail("the run was begun"))

    def run(
        *more: str,
        benchmark: str = "gsm8k",
        harness: str = "openai_chat",
        model: str = "m",
        url: str | None = endpoint.base_url,
        key: str | None = KEY,
        params: str | None = questions,
    ) -> str:
        arguments = ["run", benchmark, harness, model]
        for option, value in (
            ("--model-base-url", url),
            ("--model-api-key", key),
            ("--benchmark-params", params),
        ):
            if value is not None:
                arguments += [option, value]
        before = sorted(home.rglob("*"))
        answer = cli(*arguments, *more)
        assert answer.code == 2, answer
        assert answer.out == ""
        assert KEY not in answer.err
        assert sorted(home.rglob("*")) == before
        assert endpoint.requests == []
        return answer.complaint

    return run


@pytest.mark.parametrize(
    ("changed", "field", "near"),
    [
        ({"benchmark": "gms8k"}, "benchmark", "'gsm8k'"),
        ({"harness": "openai-chat"}, "harness", "'openai_chat'"),
    ],
)
def test_an_unknown_component_is_offered_its_nearest_name(refused, changed, field, near) -> None:  # type: ignore[no-untyped-def]
    complaint = refused(**changed)
    assert complaint.startswith(f"{field}: ")
    assert near in complaint


@pytest.mark.parametrize(
    ("options", "field", "near"),
    [
        (["--env", "host_proces"], "environment", "'host_process'"),
        (["--provider-limit", "dockr=1"], "provider-limit", "'docker'"),
        (["--provider-limit", "docker=1_0"], "provider-limit", "'1_0' is not a whole number"),
        (["--provider-limit", "docker=1.5"], "provider-limit", "'1.5' is not a whole number"),
        (["--env-open-qps", "docker=1_0"], "env-open-qps", "'1_0' is not a number"),
        (["--env-open-qps", "docker=nan"], "env-open-qps", "'nan' is not a number"),
        (["--model-api-protocol", "openai_chat"], "model-api-protocol", "'openai-chat'"),
        (["--model-api-protocol", '["openai-chat", "x"]'], "model-api-protocol", "'x'"),
        (["--model-api-protocol", '["openai-chat", 1]'], "model-api-protocol", "JSON list"),
        (["--model-api-protocol", "[]"], "model-api-protocol", "JSON list"),
        (["--model-api-protocol", ""], "model-api-protocol", "empty"),
        (["--harness-params", '{"system_promt": "x"}'], "harness-params.system_promt", "unknown"),
        (["--env-params", '{"envv": {}}'], "env-params.envv", "'env'"),
        (["--model-params", '{"temprature": 0}'], "model-params.temprature", "'temperature'"),
        (["--execution-params", '{"atempts": {}}'], "execution-params.atempts", "'attempts'"),
        (["--execution-params", '{"attempts": {"kk": 1}}'], "execution-params.attempts.kk", "'k'"),
        (["--execution-params", '{"attempts": {"k": 0}}'], "execution-params.attempts.k", "1"),
        (["--execution-params", '{"attempts": 3}'], "execution-params.attempts", "3"),
        (
            ["--execution-params", '{"task_concurrency": 0}', "--task-concurrency", "2"],
            "execution-params.task_concurrency",
            "0",
        ),
        (
            ["--execution-params", '{"timeout_multiplier": -1}'],
            "execution-params.timeout_multiplier",
            "-1",
        ),
        (["--model-params", '{"temperature": "hot"}'], "model-params.temperature", "'hot'"),
        (["--model-params", '{"headers": ["a: b"]}'], "model-params.headers", "not an object"),
        (["--model-params", '{"headers": {"A": 1}}'], "model-params.headers.A", "not a string"),
        (["--model-params", "{a:1}"], "model-params", "line 1, column 2"),
        (["--harness-params", "[1]"], "harness-params", "a list"),
        (["--env-params", "@nope.yaml"], "env-params", "no such file"),
        (["--k", "0"], "k", "0 is too small"),
        (["--k", "-1"], "k", "-1 is too small"),
        (["--k", "2.5"], "k", "'2.5' is not a whole number"),
        (["--k", "two"], "k", "'two' is not a whole number"),
        (["--k", "1_0"], "k", "not a whole number"),
        (["--k", "9" * 25], "k", "too large"),
        (["--k", "2", "--k", "3"], "k", "given 2 times"),
        (["--task-concurrency", "0"], "task-concurrency", "0 is too small"),
        (["--timeout-seconds", "-1"], "timeout-seconds", "-1 is too small"),
        (["--timeout-seconds", "1.5"], "timeout-seconds", "not a whole number"),
        (["--attempt-strategy", "best"], "attempt-strategy", "avg, pass"),
        (["--progress", "fancy"], "progress", "auto, plain, none"),
        (["--log-level", "LOUD"], "log-level", "DEBUG"),
        (["--file-log-level", "TRACE"], "file-log-level", "DEBUG"),
        (["--results-dir", ""], "results-dir", "empty"),
        (["--data-dir", " "], "data-dir", "empty"),
        (["--env", ""], "env", "empty"),
        (["--run-id", "../evil"], "run-id", "'../evil'"),
        (["--run-id", "a/b"], "run-id", "'a/b'"),
        (["--run-id", ".."], "run-id", "'..'"),
        (["--run-name", "a/../b"], "run-name", "'a/../b'"),
        (["--run-id", "a\nb"], "run-id", "line break"),
        (["--run-nam", "x"], "--run-nam", "did you mean '--run-name'"),
        (["--k"], "k", "a value is missing"),
        (["--run-name", "--dry-run"], "run-name", "'--dry-run' is the next option"),
        (["--dry-run=yes"], "dry-run", "takes no value"),
        (["surplus"], "command line", "1 argument too many"),
    ],
)
def test_a_wrong_option_is_refused_by_its_name(refused, options, field, near) -> None:  # type: ignore[no-untyped-def]
    complaint = refused(*options)
    assert complaint.startswith(f"{field}: ")
    assert near in complaint


@pytest.mark.parametrize(
    ("params", "field", "near"),
    [
        ('{"sample_id": ["x"]}', "benchmark-params.sample_id", "'sample_ids'"),
        ('{"sample_ids": "x"}', "benchmark-params.sample_ids", "'x'"),
        ('{"limit": 0}', "benchmark-params.limit", "0"),
        ('{"limit": -1}', "benchmark-params.limit", "-1"),
        ("{limit:1}", "benchmark-params", "the shell took the double quotes"),
        ('{"limit": 1,}', "benchmark-params", "line 1, column 13"),
        ("", "benchmark-params", "empty"),
        ('{"limit": 1, "limit": 2}', "benchmark-params", "given twice"),
        ('{"seed": NaN}', "benchmark-params", "NaN"),
        ('{"data_path": "nope.jsonl"}', "benchmark-params.data_path", "does not exist"),
    ],
)
def test_wrong_benchmark_parameters_are_refused(refused, params, field, near) -> None:  # type: ignore[no-untyped-def]
    complaint = refused(params=params)
    assert complaint.startswith(f"{field}: ")
    assert near in complaint


@pytest.mark.parametrize(
    ("content", "near"),
    [
        ('{"question": "?", "answer": "#### 1"}\n{bad\n', "line 2"),
        ('{"question": "?"}\n', "answer"),
        ('{"question": 3, "answer": "#### 1"}\n', "question"),
        ("", "no"),
    ],
)
def test_wrong_data_is_refused_with_its_place(refused, home, content, near) -> None:  # type: ignore[no-untyped-def]
    (home / "data.jsonl").write_text(content, encoding="utf-8")
    complaint = refused(params='{"data_path": "data.jsonl"}')
    assert complaint.startswith("benchmark-params")
    assert near in complaint


@pytest.mark.parametrize(
    ("selection", "near"),
    [
        ('"sample_ids": ["gsm8k-nope"]', "'gsm8k-nope'"),
        ('"sample_ids": []', "no task"),
        ('"categories": ["algebra"]', "'algebra'"),
    ],
)
def test_a_selection_of_nothing_is_refused(refused, home, questions, selection, near) -> None:  # type: ignore[no-untyped-def]
    complaint = refused(params=questions.replace("}", f", {selection}}}"))
    assert complaint.startswith("benchmark-params")
    assert near in complaint


def test_a_sample_id_given_twice_is_refused(refused, questions) -> None:  # type: ignore[no-untyped-def]
    unknown = refused(params=questions.replace("}", ', "sample_ids": ["gsm8k-x"]}'))
    known = unknown.split("known: ")[-1].split(",")[0].split("'")[0] if "known: " in unknown else ""
    known = known or unknown.split("did you mean '")[1].split("'")[0]
    twice = f', "sample_ids": ["{known}", "{known}"]}}'
    assert f"more than once: '{known}'" in refused(params=questions.replace("}", twice))


@pytest.mark.parametrize(
    ("changed", "field"),
    [
        ({"url": None}, "model-base-url"),
        ({"url": ""}, "model-base-url"),
        ({"url": "localhost:8000"}, "model-base-url"),
        ({"key": None}, "model-api-key"),
        ({"key": ""}, "model-api-key"),
        ({"key": "pasted\n"}, "model-api-key"),
        ({"key": "$MODEL_API_KEY"}, "model-api-key"),
        ({"key": "${AGENTCOMPASS_TEST_UNSET}"}, "model-api-key"),
        ({"model": ""}, "MODEL"),
        ({"model": "  "}, "MODEL"),
        ({"benchmark": ""}, "BENCHMARK"),
        ({"harness": ""}, "HARNESS"),
    ],
)
def test_a_model_that_cannot_be_called_is_refused(refused, changed, field) -> None:  # type: ignore[no-untyped-def]
    assert refused(**changed).startswith(f"{field}: ")


def test_pass_with_a_scalar_primary_is_refused(refused) -> None:  # type: ignore[no-untyped-def]
    options = ("--attempt-strategy", "pass", "--k", "2")
    complaint = refused(*options, benchmark="quickstart_score", params=None)
    assert complaint.startswith("attempt-strategy: ")
    assert "avg" in complaint


def test_a_results_dir_that_is_a_file_is_refused(refused, home) -> None:  # type: ignore[no-untyped-def]
    (home / "taken").write_text("", encoding="utf-8")
    for path in ("taken", "taken/below"):
        assert refused("--results-dir", path).startswith("results-dir: ")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_results_dir_that_is_not_writable_is_refused(refused, home) -> None:  # type: ignore[no-untyped-def]
    (home / "locked").mkdir(mode=0o555)
    assert "not writable" in refused("--results-dir", "locked")


def test_what_the_system_calls_not_writable_is_believed(refused, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    assert "not writable" in refused("--results-dir", "locked")


def test_a_run_id_that_exists_is_refused(refused, home) -> None:  # type: ignore[no-untyped-def]
    (home / "results" / "m__gsm8k__openai_chat" / "first").mkdir(parents=True)
    assert "exists already" in refused("--run-id", "first")


@pytest.mark.parametrize("given", [[], ["gsm8k"], ["gsm8k", "openai_chat"]])
def test_missing_arguments_are_named_in_their_order(cli: Cli, given: list[str]) -> None:
    answer = cli("run", *given)
    name = ("BENCHMARK", "HARNESS", "MODEL")[len(given)]
    assert answer.code == 2
    assert answer.complaint.startswith(f"{name}: missing; the order is BENCHMARK HARNESS MODEL")


RUN = ("run", "quickstart", "oracle", "scripted", "--dry-run")
QUESTIONS = ("run", "gsm8k", "oracle", "scripted", "--dry-run", "--benchmark-params")
REPLAY = ("run", "quickstart", "tool_agent", "replay", "--dry-run", "--model-params")
NOBODY, LONG = "~nosuchuser/x", "x" * 300


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        (("summary", NOBODY), "RUN_DIR"),
        (("summary", LONG), "RUN_DIR"),
        (("summary", f"{LONG}/run"), "RUN_DIR"),
        (("rescore", NOBODY), "RUN_DIR"),
        (("analysis", LONG), "RUN_DIR"),
        (("list", "recipe", "--recipe-dir", NOBODY), "recipe-dir"),
        (("list", "runs", "--results-dir", NOBODY), "results-dir"),
        (("new", "benchmark", "mine", "--directory", NOBODY), "directory"),
        (("launch", f"{NOBODY}.yaml"), "launch"),
        (("config", "validate", f"{NOBODY}.yaml"), "config"),
        ((*RUN, "--recipe-dir", NOBODY), "recipe-dir"),
        ((*RUN, "--results-dir", NOBODY), "results-dir"),
        ((*RUN, "--data-dir", NOBODY), "data-dir"),
        ((*RUN, "--env-params", f"@{NOBODY}.json"), "env-params"),
        ((*RUN, "--env-params", f"@{LONG}/a.json"), "env-params"),
        ((*REPLAY, f'{{"trajectory": "{NOBODY}"}}'), "model-params.trajectory"),
        ((*RUN, "--env-params", f'{{"temp_dir": "{NOBODY}"}}'), "env-params.temp_dir"),
        (("env", "list", "--env", "host_process", "--env-params", f'{{"temp_dir": "{NOBODY}"}}'),
         "env-params.temp_dir"),
        ((*QUESTIONS, f'{{"data_path": "{NOBODY}"}}'), "benchmark-params.data_path"),
        ((*QUESTIONS, f'{{"data_path": "{LONG}"}}'), "benchmark-params.data_path"),
    ],
)  # fmt: skip
def test_a_path_that_cannot_be_meant_is_refused_by_its_name(
    cli: Cli, arguments: tuple[str, ...], field: str
) -> None:
    answer = cli(*arguments)
    assert answer.code == 2, answer.err
    assert answer.complaint.startswith(f"{field}: ")
    assert "cannot be used" in answer.complaint


@pytest.mark.parametrize(
    ("option", "params", "complaint"),
    [
        ("--model-params", f'{{"script": "{NOBODY}"}}', "model-params.script: "),
        (
            "--env-params",
            f'{{"setup": {{"files": {{"/x": "{NOBODY}"}}}}}}',
            "host_process is to be",
        ),
    ],
)
def test_a_path_that_only_the_run_reads_is_found_at_preflight(
    cli: Cli, option: str, params: str, complaint: str
) -> None:
    answer = cli("run", "quickstart", "tool_agent", "scripted", "--dry-run", option, params)
    assert answer.code == 3
    assert answer.complaint.startswith(complaint)
    assert f"'{NOBODY}' cannot be used" in answer.complaint


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("env", "clean", "--run", "--kept"), "run: a value is missing: '--kept'"),
        (("env", "list", "docker"), "command line: 1 argument too many, the first is 'docker'"),
        (("env", "clean", "--run", "a", "--run", "b"), "run: given 2 times"),
        (("env", "claen"), "env: no command 'claen'; did you mean 'clean'"),
        (("list", "runs", "--results-dir", "--json"), "results-dir: a value is missing: '--json'"),
        (("server", "stauts"), "server: no command 'stauts'; did you mean 'status'"),
        (("server", "status", "http://h"), "command line: 1 argument too many"),
        (("config", "show", "--config", "--origins"), "config: a value is missing: '--origins'"),
        (("new", "benchmark", "n", "--directory", "a", "--directory", "b"), "directory: given 2"),
    ],
)
def test_no_command_swallows_what_was_not_meant(
    cli: Cli, home: Path, arguments: tuple[str, ...], complaint: str
) -> None:
    answer = cli(*arguments)
    assert answer.code == 2
    assert answer.complaint.startswith(complaint)
    assert list(home.iterdir()) == []
