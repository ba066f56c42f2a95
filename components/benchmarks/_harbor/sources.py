"""Where tasks come from: folders of tasks, single task folders, git repositories, or a list."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from agentcompass.components.benchmarks._harbor.git_source import read_git
from agentcompass.components.contracts.errors import RequestError
from agentcompass.components.contracts.user_path import user_path

FIELD = "benchmark-params.data_path"
_GIT = re.compile(r"(https?|ssh|git|file)://|[\w.-]+@[\w.-]+:")


@dataclass(frozen=True)
class Found:
    folders: tuple[Path, ...]
    """Task folders, by name."""
    source: str
    revision: str | None


def find_tasks(entries: Sequence[str], revision: str | None, data_dir: Path) -> Found:
    """Every folder with a task.toml that the entries name. Blocking.

    Raises RequestError for what the user can correct, PreflightRefused for a repository that
    cannot be had here and now.
    """
    if not entries:
        raise RequestError(FIELD, "the list is empty")
    if revision is not None and not any(_GIT.match(entry) for entry in entries):
        raise RequestError(
            "benchmark-params.revision",
            "a local folder has no revision",
            "leave out `revision`, or give a git address as data_path",
        )
    folders: dict[str, Path] = {}
    sources, commits = [], []
    for entry in entries:
        if _GIT.match(entry):
            root, source, commit = _from_git(entry, revision, data_dir)
            commits.append(commit)
        else:
            root = user_path(entry, FIELD)
            source = root.name
            if not root.is_dir():
                problem = "is not a folder" if root.exists() else "does not exist"
                raise RequestError(FIELD, f"{entry}: {problem}")
        sources.append(source)
        for folder in _task_folders(root, entry):
            other = folders.setdefault(folder.name, folder)
            if other != folder:
                raise RequestError(
                    FIELD, f"two tasks are named {folder.name!r}: {other} and {folder}"
                )
    return Found(
        folders=tuple(folders[name] for name in sorted(folders)),
        source=", ".join(dict.fromkeys(sources)),
        revision=", ".join(dict.fromkeys(commits)) or None,
    )


def _from_git(entry: str, revision: str | None, data_dir: Path) -> tuple[Path, str, str]:
    """`ADDRESS`, `ADDRESS#REVISION`, `ADDRESS#REVISION:FOLDER` or `ADDRESS#:FOLDER`."""
    address, _, fragment = entry.partition("#")
    own, _, inside = fragment.partition(":")
    commit, root = read_git(address, own or revision, data_dir, FIELD)
    folder = root / inside.strip("/")
    if ".." in Path(inside).parts or not folder.is_dir():
        raise RequestError(FIELD, f"{address} has no folder {inside!r} at {commit[:12]}")
    return folder, address, commit


def _task_folders(root: Path, entry: str) -> list[Path]:
    """The folder itself, or those in it, at most three levels down (`tasks/<group>/<task>`)."""
    if (root / "task.toml").is_file():
        return [root.resolve()]
    for pattern in ("*/task.toml", "*/*/task.toml", "*/*/*/task.toml"):
        found = sorted(path.parent for path in root.glob(pattern))
        if found:
            return found
    raise RequestError(
        FIELD, f"{entry}: no task there", "a task is a folder with a task.toml and instruction.md"
    )
