"""Where Harbor tasks come from: folders, git repositories at a revision, lists of both."""

import subprocess
from pathlib import Path

import pytest

from agentcompass.components.benchmarks import terminal_bench_2
from agentcompass.components.benchmarks._harbor.sources import find_tasks
from agentcompass.components.contracts.errors import PreflightRefused, RequestError
from tests.components.benchmarks.harbor_folder import TASK, write_task


def git(folder: Path, *arguments: str) -> str:
    who = ["-c", "user.name=x", "-c", "user.email=x@example.org"]
    done = subprocess.run(
        ["git", *who, "-C", str(folder), *arguments], check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Two commits; the first is tagged v1 and has one task, the second two."""
    folder = tmp_path / "repository"
    write_task(folder / "tasks", "one")
    git(tmp_path, "init", "-q", "-b", "main", str(folder))
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "one")
    git(folder, "tag", "-a", "v1", "-m", "v1")
    write_task(folder / "tasks", "two")
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "two")
    return folder


def names(entries: list[str], data: Path, revision: str | None = None) -> list[str]:
    return [folder.name for folder in find_tasks(entries, revision, data).folders]


def test_a_folder_of_tasks_one_task_groups_and_a_list(tmp_path: Path) -> None:
    write_task(tmp_path / "many", "b")
    write_task(tmp_path / "many", "a")
    (tmp_path / "many" / "README.md").write_text("not a task")
    write_task(tmp_path / "deep" / "group", "c")
    many, one, deep = (str(tmp_path / p) for p in ("many", "many/a", "deep"))
    assert names([many], tmp_path) == ["a", "b"]
    assert names([one], tmp_path) == ["a"]
    assert names([deep], tmp_path) == ["c"]
    assert names([deep, many], tmp_path) == ["a", "b", "c"]
    assert names([many, one], tmp_path) == ["a", "b"]


def test_what_is_no_task_is_refused_by_name(tmp_path: Path) -> None:
    write_task(tmp_path / "x", "same")
    write_task(tmp_path / "y", "same")
    (tmp_path / "empty").mkdir()
    for entries, problem in (
        ([str(tmp_path / "nowhere")], "does not exist"),
        ([str(tmp_path / "empty")], "no task there"),
        ([str(tmp_path / "x"), str(tmp_path / "y")], "two tasks are named 'same'"),
        ([], "list is empty"),
    ):
        with pytest.raises(RequestError, match=problem):
            names(entries, tmp_path)
    with pytest.raises(RequestError, match="has no revision"):
        names([str(tmp_path / "x")], tmp_path, "main")


def test_a_repository_at_a_commit_tag_branch_and_in_a_folder(
    repository: Path, tmp_path: Path
) -> None:
    address, data = f"file://{repository}", tmp_path / "data"
    first, last = git(repository, "rev-parse", "v1^{}"), git(repository, "rev-parse", "main")
    assert names([address], data) == ["one", "two"]
    for revision in (first, "v1"):
        found = find_tasks([address], revision, data)
        assert ([f.name for f in found.folders], found.revision) == (["one"], first)
    found = find_tasks([f"{address}#main:tasks/two"], None, data)
    assert ([f.name for f in found.folders], found.revision) == (["two"], last)
    assert names([f"{address}#:tasks"], data) == ["one", "two"]
    assert not list(data.rglob(".git"))


def test_what_is_at_hand_serves_when_nobody_answers(repository: Path, tmp_path: Path) -> None:
    address, data = f"file://{repository}", tmp_path / "data"
    commit = git(repository, "rev-parse", "v1^{}")
    assert names([address], data) == ["one", "two"]
    assert names([address], data, commit) == ["one"]
    repository.rename(tmp_path / "gone")
    assert names([address], data) == ["one", "two"]
    assert names([address], data, commit) == ["one"]
    with pytest.raises(PreflightRefused, match="set benchmark-params.data_path"):
        names([address], data, "v1")


def test_unknown_revisions_and_folders(repository: Path, tmp_path: Path) -> None:
    address = f"file://{repository}"
    with pytest.raises(RequestError, match="no branch or tag 'v9'"):
        names([address], tmp_path, "v9")
    with pytest.raises(RequestError, match="has no folder 'nowhere'"):
        names([f"{address}#v1:nowhere"], tmp_path)
    with pytest.raises(RequestError, match="has no folder"):
        names([f"{address}#v1:../.."], tmp_path)
    with pytest.raises(PreflightRefused):
        names([address], tmp_path, "0" * 40)


def test_an_interrupted_download_does_not_count(repository: Path, tmp_path: Path) -> None:
    address, data = f"file://{repository}", tmp_path / "data"
    commit = find_tasks([address], "v1", data).revision or ""
    store = next((data / "git").iterdir())
    (store / commit).rename(store / ".fetching-half")
    (store / ".fetching-half" / "tasks" / "one" / "task.toml").unlink()
    assert names([address], data, "v1") == ["one"]


def test_terminal_bench_2_is_pinned(tmp_path: Path) -> None:
    component = terminal_bench_2.COMPONENT
    store = tmp_path / "git"
    made = component.create(component.parameters())
    assert made._entries == (f"{terminal_bench_2.REPOSITORY}#{terminal_bench_2.REVISION}",)
    other = component.create(component.parameters(revision="main"))
    assert other._entries == (terminal_bench_2.REPOSITORY,)
    assert not store.exists()
    local = component.create(component.parameters(data_path=str(write_task(tmp_path, toml=TASK))))
    assert [s.task.id for s in local.load(tmp_path / "data").samples] == ["answer"]
    assert local.primary == "correct"
