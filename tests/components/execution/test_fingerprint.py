"""What may change without a result being made again, one thing at a time (spec: reuse)."""

import json
from pathlib import Path
from typing import Any

import pytest

from agentcompass.components.configuration.secrets import hide
from agentcompass.components.contracts.errors import RequestError
from agentcompass.components.contracts.run import Choice, ExecutionSettings, RunRequest
from agentcompass.components.execution.fingerprint import differences, fingerprint
from agentcompass.components.execution.plan import resolve
from agentcompass.components.execution.source import find_source
from agentcompass.components.results.lease import RunLease
from agentcompass.components.results.paths import RunFolder
from agentcompass.components.results.store import RunStore


def request(
    model: str = "m",
    url: str = "http://127.0.0.1:18001/v1",
    key: str = "k1",
    protocol: tuple[str, ...] = (),
    params: dict[str, Any] | None = None,
    harness: str = "tool_agent",
    harness_params: dict[str, Any] | None = None,
    benchmark: str = "quickstart",
    benchmark_params: dict[str, Any] | None = None,
    env_params: dict[str, Any] | None = None,
    execution: dict[str, Any] | None = None,
) -> dict[str, Any]:
    spec, _ = hide(model, url, key, protocol, params or {})
    asked = RunRequest(
        benchmark=Choice(id=benchmark, params=benchmark_params or {}),
        harness=Choice(id=harness, params=harness_params or {}),
        model=spec,
        environment=Choice(id="host_process", params=env_params or {}),
        execution=ExecutionSettings.model_validate(execution or {}),
    )
    return fingerprint(resolve(asked))


@pytest.mark.parametrize(
    "change",
    [
        {"url": "http://127.0.0.1:18002/v1"},
        {"url": "http://user:pw@127.0.0.1:18002/v1?api_key=x"},
        {"key": "k2"},
        {"params": {"headers": {"x-trace": "7"}}},
        {"params": {"prices": {"input": 1, "output": 2}, "timeout": 5, "max_retry_seconds": 9}},
        {"benchmark_params": {"limit": 3, "seed": 0, "categories": ["code"]}},
        {"benchmark_params": {"unscored": "exclude", "aggregation": "macro"}},
        {"env_params": {"temp_dir": "/somewhere/else"}},
        {"execution": {"task_concurrency": 2, "max_retries": 5, "attempts": {"k": 4}}},
        {"execution": {"attempts": {"k": 2, "strategy": "pass"}, "run_timeout_seconds": 9}},
    ],
    ids=json.dumps,
)
def test_what_changes_no_result_is_no_difference(change: dict[str, Any]) -> None:
    assert request(**change) == request()


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"model": "other"}, "model.id"),
        ({"protocol": ("openai-responses",)}, "model.protocol"),
        ({"params": {"temperature": 0.7}}, "model.params.temperature"),
        ({"params": {"extra_body": {"top_k": 3}}}, "model.params.extra_body"),
        ({"harness_params": {"step_limit": 3}}, "harness.params.step_limit"),
        ({"harness": "openai_chat"}, "harness.id"),
        ({"env_params": {"env": {"LANG": "de"}}}, "environment.params.env"),
    ],
    ids=json.dumps,
)
def test_what_changes_results_is_named(change: dict[str, Any], field: str) -> None:
    told = differences(request(), request(**change))
    assert any(line.startswith(field) for line in told), told


def test_the_content_of_a_script_counts_and_its_place_does_not(tmp_path: Path) -> None:
    one, two = tmp_path / "one.json", tmp_path / "two.json"
    one.write_text('{"default": ["a"]}')
    two.write_text('{"default": ["a"]}')
    scripted = {"model": "scripted", "url": "", "key": ""}
    first = request(**scripted, params={"script": str(one)})
    assert request(**scripted, params={"script": str(two)}) == first
    two.write_text('{"default": ["b"]}')
    assert differences(first, request(**scripted, params={"script": str(two)}))


def with_files(*sources: Path) -> dict[str, Any]:
    files = {f"/opt/{number}": str(source) for number, source in enumerate(sources)}
    return request(env_params={"setup": {"files": files}})


def test_the_content_of_files_put_into_the_sandbox_counts_and_their_place_here_does_not(
    tmp_path: Path,
) -> None:
    hints, moved = tmp_path / "hints.md", tmp_path / "moved.md"
    hints.write_text("one")
    moved.write_text("one")
    first = with_files(hints)
    assert with_files(moved) == first
    hints.write_text("two")
    (line,) = differences(first, with_files(hints))
    assert line.startswith("environment.params.setup.files./opt/0: ")
    assert with_files(tmp_path / "gone") == with_files(tmp_path / "gone")
    assert differences(first, request())


@pytest.mark.parametrize("change", ["content", "name", "mode", "link", "more"])
def test_the_content_of_a_folder_put_into_the_sandbox_counts(tmp_path: Path, change: str) -> None:
    tool = tmp_path / "tools" / "bin" / "tool"
    tool.parent.mkdir(parents=True)
    tool.write_text("echo a")
    (tmp_path / "tools" / "link").symlink_to("bin")
    first = with_files(tmp_path / "tools")
    assert with_files(tmp_path / "tools") == first
    match change:
        case "content":
            tool.write_text("echo b")
        case "name":
            tool.rename(tool.with_name("other"))
        case "mode":
            tool.chmod(0o755)
        case "link":
            (tmp_path / "tools" / "link").unlink()
            (tmp_path / "tools" / "link").symlink_to("bin/tool")
        case "more":
            (tmp_path / "tools" / "empty").mkdir()
    assert differences(first, with_files(tmp_path / "tools"))


def earlier_run(folder: Path, known: dict[str, Any]) -> RunStore:
    store = RunStore(RunFolder(folder))
    folder.mkdir(parents=True)
    store.write_run({"fingerprint": known})
    return store


def nothing_done(run: RunStore) -> int:
    return 0


def test_latest_is_the_fullest_that_fits(tmp_path: Path) -> None:
    fits, differs = {"model": {"id": "m"}}, {"model": {"id": "other"}}
    earlier_run(tmp_path / "20250101_000000", fits)
    earlier_run(tmp_path / "20250102_000000", fits)  # a resume that was killed early
    earlier_run(tmp_path / "20250103_000000", differs)
    done = {"20250101_000000": 3, "20250102_000000": 1, "20250103_000000": 9}
    found = find_source(tmp_path, "latest", fits, lambda run: done[run.run_id])
    assert found is not None
    assert found.run_id == "20250101_000000"
    assert find_source(tmp_path / "empty", "latest", fits, nothing_done) is None


def test_a_run_that_differs_is_named_with_its_fields(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    earlier_run(tmp_path / "one", {"model": {"params": {"temperature": 0.0}}})
    warmer = {"model": {"params": {"temperature": 0.7}}}
    assert find_source(tmp_path, "one", warmer, nothing_done) is None
    assert "model.params.temperature: 0.0 → 0.7" in caplog.text


def test_a_run_that_is_not_there_or_in_work_is_refused(tmp_path: Path) -> None:
    store = earlier_run(tmp_path / "one", {})
    with pytest.raises(RequestError, match="did you mean 'one'"):
        find_source(tmp_path, "onw", {}, nothing_done)
    lease = RunLease(store.folder.lease)
    lease.take()
    try:
        with pytest.raises(RequestError, match="being worked on by process"):
            find_source(tmp_path, "one", {}, nothing_done)
        with pytest.raises(RequestError, match="being worked on by process"):
            RunLease(store.folder.lease).take()
    finally:
        lease.release()
    assert find_source(tmp_path, "one", {}, nothing_done) is not None
