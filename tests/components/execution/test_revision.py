"""The code of a run is told apart from any other."""

from pathlib import Path

import pytest

import agentcompass
from agentcompass.components.execution import revision

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout's package: what is asked for is its `__init__.py`."""
    folder = tmp_path / "checkout" / "src" / "agentcompass"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text("")
    (tmp_path / "checkout" / "pyproject.toml").write_text("")
    monkeypatch.setattr(agentcompass, "__file__", str(folder / "__init__.py"))
    monkeypatch.setattr(revision, "source_hash", revision.source_hash.__wrapped__)
    return folder


@pytest.mark.parametrize(
    "files",
    [
        {"HEAD": COMMIT},
        {"HEAD": "ref: refs/heads/main\n", "refs/heads/main": f"{COMMIT}\n"},
        {"HEAD": "ref: refs/heads/main\n", "packed-refs": f"# x\n{COMMIT} refs/heads/main\n"},
    ],
)
def test_the_commit_of_a_checkout(package: Path, files: dict[str, str]) -> None:
    for name, content in files.items():
        path = package.parent.parent / ".git" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    assert revision.code_revision() == COMMIT


def test_without_a_repository_there_is_none(package: Path) -> None:
    (package.parents[2] / ".git").mkdir()
    (package.parents[2] / ".git/HEAD").write_text(COMMIT)  # somebody else's, around it
    assert revision.code_revision() is None


def test_a_local_change_shows(package: Path) -> None:
    before = revision.source_hash()
    (package / "data.txt").write_text("no code")
    assert revision.source_hash() == before
    (package / "more.py").write_text("x = 1")
    assert revision.source_hash() != before
