"""What a run shows: progress on stderr, the result on stdout, the outcome in the exit code."""

import json
import os
import shlex
import shutil
import sys
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path

import pytest

from agentcompass.components.contracts.attempt import AttemptKey, AttemptRecord, Detail, Verdict
from agentcompass.components.contracts.progress import Outcome, Progress
from agentcompass.components.contracts.run import RunRequest
from agentcompass.components.execution.repeating import way_on
from agentcompass.components.results.metrics import compute_metrics
from agentcompass.components.results.paths import namespace
from agentcompass.flows import local, server
from tests.cli.conftest import Cli

NOW = datetime(2026, 1, 1, tzinfo=UTC)
RUN = ("run", "quickstart", "oracle", "scripted")

Listen = Callable[[Progress], None]
Note = Callable[[str], None]


class FakeRuns:
    """Stands where Prefect would: records what it was asked and leaves metrics behind."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.outcome = Outcome(
            run_dir=str(folder), state="finished", planned=1, scored=1, skipped=0
        )
        self.metrics = True
        self.pages: tuple[str, ...] = ()
        self.raises: BaseException | None = None
        self.request: RunRequest | None = None
        self.secrets: Mapping[str, str] = {}

    def run_locally(
        self, request: RunRequest, secrets: Mapping[str, str], listen: Listen, note: Note
    ) -> Outcome:
        self.request, self.secrets = request, secrets
        note("Prefect UI: http://127.0.0.1:1")
        print("a library prints this")
        start = Progress(planned=1, running=1, started_at=NOW, updated_at=NOW)
        listen(start)
        if self.raises:
            raise self.raises
        listen(start.model_copy(update={"running": 0, "scored": 1, "state": "finished"}))
        self.folder.mkdir()
        for page in self.pages:
            (self.folder / page).parent.mkdir(exist_ok=True)
            (self.folder / page).write_text("# read me\n", encoding="utf-8")
        if self.metrics:
            (self.folder / "metrics.json").write_text(_metrics(), encoding="utf-8")
        return self.outcome


def _metrics() -> str:
    record = AttemptRecord(
        key=AttemptKey(task_id="t", index=1), status="scored", verdict=Verdict(correct=True)
    )
    detail = Detail(task_id="t", instruction="?", content_hash="0", planned=1, attempts=(record,))
    return compute_metrics([detail], ["t"]).model_dump_json()


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeRuns:
    fake = FakeRuns(tmp_path / "r🙂n")
    monkeypatch.setattr(local, "run_locally", fake.run_locally)
    return fake


def test_the_score_comes_first_and_the_folder_last_on_stdout(cli: Cli, runs: FakeRuns) -> None:
    answer = cli(*RUN)
    assert answer.code == 0
    lines = answer.out.splitlines()
    assert lines[0].split() == ["native@1", "1"]
    assert lines[-1] == str(runs.folder)
    assert any(line.startswith("coverage") for line in lines)
    assert any(line.startswith("95 % interval") for line in lines)
    assert "a library prints this" not in answer.out


def test_json_is_one_document_and_nothing_else(cli: Cli, runs: FakeRuns) -> None:
    answer = cli(*RUN, "--json")
    document = json.loads(answer.out)
    assert answer.out.count("\n") == 1
    assert document["outcome"] == "finished"
    assert document["exit_code"] == answer.code == 0
    assert document["run_dir"] == str(runs.folder)
    assert document["metrics"]["headline"]["value"] == 1.0
    assert document["metrics"]["headline"]["name"] == "native@1"


def test_progress_is_plain_lines_when_stderr_is_no_terminal(cli: Cli, runs: FakeRuns) -> None:
    answer = cli(*RUN)
    assert "0/1 attempts" in answer.err
    assert "1/1 attempts" in answer.err
    assert "\r" not in answer.err
    assert "\x1b" not in answer.err


def test_progress_none_shows_only_notes(cli: Cli, runs: FakeRuns) -> None:
    answer = cli(*RUN, "--progress", "none")
    assert answer.err == "Prefect UI: http://127.0.0.1:1\na library prints this\n"


def test_notes_follow_the_log_level(cli: Cli, runs: FakeRuns) -> None:
    answer = cli(*RUN, "--progress", "none", "--log-level", "warning")
    assert "Prefect UI" not in answer.err


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"planned": 2, "scored": 1}, 1),
        ({"planned": 2, "scored": 1, "skipped": 1}, 0),
        ({"state": "failed", "problem": "model.auth: the key was refused"}, 4),
        ({"state": "timed_out", "problem": "time is up"}, 4),
        ({"state": "interrupted"}, 130),
    ],
)
def test_the_outcome_is_the_exit_code_and_a_problem_is_one_line(
    cli: Cli, runs: FakeRuns, changes: dict[str, object], code: int
) -> None:
    runs.outcome = runs.outcome.model_copy(update=changes)
    answer = cli(*RUN, "--progress", "none", "--log-level", "ERROR")
    assert answer.code == code
    assert answer.out.splitlines()[-1] == str(runs.folder)
    complaints = [line for line in answer.err.splitlines() if line.startswith("agentcompass: ")]
    assert len(complaints) == (code not in (0, 1))
    assert str(changes.get("problem", "")) in answer.err


def stands(request: RunRequest, runs: FakeRuns) -> None:
    """The run is where a real one would be, and the folder of the next is free."""
    runtime = request.runtime
    ids = (request.model.id, request.benchmark.id, request.harness.id)
    folder = namespace(Path(runtime.results_dir), runtime.run_name, *ids) / runs.folder.name
    folder.mkdir(parents=True)
    (folder / "run.json").write_text("{}", encoding="utf-8")
    shutil.rmtree(runs.folder)


@pytest.mark.parametrize("key", ["none", "${MY_KEY}", "sk-0123456789"])
def test_where_attempts_lack_a_score_the_last_line_goes_on_with_this_run(
    cli: Cli, runs: FakeRuns, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("MY_KEY", "MODEL_API_KEY"):
        monkeypatch.setenv(name, "sk-0123456789")
    runs.outcome = runs.outcome.model_copy(update={"planned": 2})
    wanted = (
        "--k", "2", "--run-name", "night-1", "--results-dir", "my results", "--data-dir", "d",
        "--model-base-url", "http://127.0.0.1:1/v1", "--model-api-protocol", "openai-chat",
        "--model-params", '{"temperature": 0.5}', "--timeout-seconds", "60",
        "--execution-params", '{"max_retries": 2}', "--model-api-key", key,
    )  # fmt: skip
    answer = cli("run", "quickstart", "tool_agent", "m", *wanted)
    assert answer.code == 1, answer.err
    assert answer.out.splitlines()[-1] == str(runs.folder)
    line = answer.err.splitlines()[-1]
    assert line.endswith(f"--reuse={runs.folder.name}'")
    first = runs.request
    assert first is not None
    stands(first, runs)
    assert "sk-0123456789" not in line
    typed = os.path.expandvars(line.partition(": agentcompass ")[2])  # as a shell would
    again = cli(*shlex.split(typed))
    assert again.code == 1, again.err
    assert runs.request is not None
    runtime = first.runtime.model_copy(update={"reuse": runs.folder.name})
    model = first.model.model_copy(update={"api_key": runs.request.model.api_key})
    assert (first.model.api_key == model.api_key) is (key != "${MY_KEY}")
    assert runs.request == first.model_copy(update={"runtime": runtime, "model": model})


@pytest.mark.parametrize(
    ("said", "typed"),
    [
        ("", ("--timeout-seconds", "1000000")),
        ("", ("--timeout-seconds", "1234567", "--no-checkpoint-resume", "--reuse")),
        ("", ("--env-open-qps", "docker=0.00000125", "--provider-limit", "docker=100000")),
        ("execution: {attempts: {k: 5}}", ("--k", "1")),
        ("execution: {attempts: {k: 5, strategy: pass}}", ("--attempt-strategy", "avg")),
        ("execution: {attempts: {k: 5, strategy: pass}}",
         ("--k", "1", "--attempt-strategy", "avg")),
        ("execution: {attempts: {k: 5, strategy: pass}}", ()),
        ("execution: {max_retries: 3, enable_analysis: false}",
         ("--max-retries", "0", "--enable-analysis")),
        ("execution: {run_timeout_seconds: 60}",
         ("--execution-params", '{"run_timeout_seconds": null}')),
        ("runtime: {results_dir: there, run_name: night, timeout_seconds: 7}",
         ("--results-dir", "results", "--run-name", "", "--timeout-seconds", "360000")),
        ("runtime: {timeout_seconds: 90}", ()),
    ],
)  # fmt: skip
def test_the_way_on_asks_for_the_same_whatever_the_configuration_says(
    cli: Cli, runs: FakeRuns, home: Path, said: str, typed: tuple[str, ...]
) -> None:
    (home / "agentcompass.yaml").write_text(said or "{}", encoding="utf-8")
    runs.outcome = runs.outcome.model_copy(update={"planned": 2})
    assert cli(*RUN, *typed).code == 1
    first = runs.request
    assert first is not None
    line = way_on(first, runs.folder.name)
    stands(first, runs)
    again = cli(*shlex.split(line)[1:])
    assert again.code == 1, again.err
    assert runs.request is not None
    runtime = first.runtime.model_copy(update={"reuse": runs.folder.name})
    assert runs.request == first.model_copy(update={"runtime": runtime})


def test_the_way_on_is_told_beside_a_configuration_that_cannot_be_read(
    cli: Cli, runs: FakeRuns, home: Path
) -> None:
    assert cli(*RUN, "--k", "3").code == 0
    (home / "agentcompass.yaml").write_text("execution: 3", encoding="utf-8")
    assert runs.request is not None
    assert " --k 3 " in way_on(runs.request, "first")


def test_the_way_on_names_the_page_that_says_what_to_do(cli: Cli, runs: FakeRuns) -> None:
    runs.outcome = runs.outcome.model_copy(update={"planned": 2})
    runs.pages = ("summary.md", "analysis/analysis.md")
    answer = cli(*RUN, "--progress", "none", "--log-level", "ERROR")
    assert f"what to do: {runs.folder}/analysis/analysis.md\n" in answer.err


def test_a_run_without_numbers_still_names_its_folder(cli: Cli, runs: FakeRuns) -> None:
    runs.metrics = False
    runs.outcome = runs.outcome.model_copy(update={"state": "failed", "problem": "disk full"})
    answer = cli(*RUN)
    assert answer.out == f"{runs.folder}\n"
    assert json.loads(cli_json(cli, runs).out)["metrics"] is None


def cli_json(cli: Cli, runs: FakeRuns):  # type: ignore[no-untyped-def]
    runs.folder.rmdir()
    return cli(*RUN, "--json")


def test_a_server_that_cannot_be_had_refuses_the_run(cli: Cli, runs: FakeRuns) -> None:
    runs.raises = server.ServerProblem("the Prefect server ended while starting")
    answer = cli(*RUN, "--progress", "none", "--log-level", "ERROR")
    assert answer.code == 3
    assert "agentcompass: the Prefect server ended while starting\n" in answer.err


def test_ctrl_c_before_the_attempts_is_130(cli: Cli, runs: FakeRuns) -> None:
    runs.raises = KeyboardInterrupt()
    answer = cli(*RUN)
    assert answer.code == 130
    assert "Traceback" not in answer.err


def test_the_request_goes_out_without_the_key_and_the_key_beside_it(
    cli: Cli, runs: FakeRuns
) -> None:
    cli(*RUN, "--model-api-key", "sk-0123456789", "--k", "2")
    assert runs.request is not None
    assert runs.request.execution.attempts.k == 2
    assert "sk-0123456789" not in runs.request.model_dump_json()
    assert "sk-0123456789" in runs.secrets.values()


def test_stdout_is_whole_again_after_the_run(cli: Cli, runs: FakeRuns) -> None:
    before = sys.stdout
    cli(*RUN)
    assert sys.stdout is before
