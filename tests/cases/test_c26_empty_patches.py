"""C26: an empty patch is a class of its own, and nothing but the agent's work is in a patch."""

from pathlib import Path

import pytest

from agentcompass.components.contracts.errors import Code
from tests.components.benchmarks.swebench_repository import FIXED
from tests.components.benchmarks.swebench_shapes import FIX, Shapes, shown


@pytest.fixture
def already_right(tmp_path: Path) -> Shapes:
    """A task whose tests pass before anything is done."""
    return Shapes(
        tmp_path,
        files={"shapes/__init__.py": FIXED + "\n"},
        columns={
            "FAIL_TO_PASS": ["A label has brackets."],
            "PASS_TO_PASS": [],
        },
    )


def test_doing_nothing_does_not_resolve_what_passes_anyway(already_right: Shapes) -> None:
    for act in (
        "true",
        "git commit -q --allow-empty -m done || true",
        "touch -d tomorrow README.md",
        "echo x >a && rm a",
        "mkdir -p build __pycache__; touch build/x a.log .aider.log",
    ):
        tried = already_right.worked(act)
        assert tried.verdict.correct is False, act
        assert [n.code for n in tried.verdict.notes] == [Code.SUBMISSION_EMPTY], act


def test_a_removed_directory_is_empty_too(already_right: Shapes) -> None:
    tried = already_right.worked('cd / && rm -rf "$OLDPWD"')
    assert tried.verdict.correct is False
    assert [n.code for n in tried.verdict.notes] == [Code.SUBMISSION_EMPTY]


def test_neither_set_up_nor_harness_files_are_in_a_patch(tmp_path: Path) -> None:
    shapes = Shapes(
        tmp_path,
        setup_commands=(
            "mkdir -p build out",
            "echo built >build/lib.txt",
            "echo log >install.log",
            "echo made >out/generated.txt",
            "echo '# set up' >>README.md",
        ),
    )
    tried = shapes.worked(
        FIX
        # The rules that hid set-up's files are gone, and so is what git knew.
        + "rm .gitignore; rm -rf .git; mkdir .claude; touch .claude/log .aider.chat.md; "
        "mkdir -p shapes/__pycache__ .agentcompass-x; touch shapes/__pycache__/a.pyc "
        ".agentcompass-x/y; echo mine >build/mine.txt"
    )
    [artifact] = tried.submission.artifacts
    patch = tried.desk.read(artifact).decode()
    assert tried.verdict.correct is True, shown(tried)
    names = sorted(line.split(" b/")[1] for line in patch.splitlines() if line[:4] == "diff")
    assert names == [".gitignore", "shapes/__init__.py"]
