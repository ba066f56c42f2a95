"""A SWE-bench-shaped data set of our own: one small repository, its fix still in its future.

Nothing is downloaded: tests are unittest's, and the sandbox's own python3 runs them.
"""

import json
import os
import subprocess
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

BUGGY = '''\
"""Areas."""


def area(width, height):
    return width + height


def label(name):
    return f"<{name}>"
'''
FIXED = BUGGY.replace("width + height", "width * height")
TESTS = '''\
import unittest

from shapes import area, label


class Shapes(unittest.TestCase):
    def test_label(self):
        """A label has brackets."""
        self.assertEqual(label("a"), "<a>")


if __name__ == "__main__":
    unittest.main()
'''
NEW_TEST = '''
    def test_area(self):
        """An area is a product."""
        self.assertEqual(area(3, 4), 12)

'''
HIDDEN = TESTS.replace('"<a>")\n\n', '"<a>")\n' + NEW_TEST)
FILES: Mapping[str, str] = {
    "shapes/__init__.py": BUGGY,
    "tests/__init__.py": "",
    "tests/test_shapes.py": TESTS,
    ".gitignore": "build/\n*.log\n",
    "README.md": "Shapes\n",
}
COMMAND = "python3 -m unittest -v tests.test_shapes"
PARAMETERS: Mapping[str, Any] = {
    "preparation": "git_clone",
    "venv": "",
    "packages": [],
    "setup_commands": [],
    "test_command": COMMAND,
}


def git(folder: Path, *words: str, day: int = 1, stdin: bytes = b"") -> str:
    """Run git there under fixed names and dates."""
    date = f"2024-01-{day:02d}T00:00:00+00:00"
    done = subprocess.run(
        ["git", *words],
        cwd=folder,
        input=stdin,
        capture_output=True,
        check=True,
        env={
            "PATH": os.environ["PATH"],
            "HOME": str(folder),
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_AUTHOR_NAME": "Robin",
            "GIT_AUTHOR_EMAIL": "robin@example.org",
            "GIT_COMMITTER_NAME": "Robin",
            "GIT_COMMITTER_EMAIL": "robin@example.org",
            "GIT_AUTHOR_DATE": date,
            "GIT_COMMITTER_DATE": date,
        },
    )
    return done.stdout.decode().strip()


def make_repository(folder: Path, files: Mapping[str, str | bytes]) -> str:
    """The upstream repository; returns its base commit. The commit after it is the fix."""
    folder.mkdir(parents=True)
    git(folder, "init", "-q", "-b", "main")
    (folder / "CHANGES").write_text("first\n")
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "Begin", day=1)
    git(folder, "tag", "v0.1")
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "Shapes", day=2)
    base = git(folder, "rev-parse", "HEAD")
    (folder / "shapes/__init__.py").write_text(FIXED)
    (folder / "tests/test_shapes.py").write_text(HIDDEN)
    git(folder, "commit", "-q", "-a", "-m", "Multiply", day=3)
    git(folder, "tag", "-a", "v1.0", "-m", "Later", day=3)
    return base


def diff(path: str, before: str, after: str) -> str:
    """A patch for one file, as git writes it."""
    return _diff(path, before, after)


@cache
def _diff(path: str, before: str, after: str) -> str:
    import tempfile

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        git(folder, "init", "-q")
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(before)
        git(folder, "add", "-A")
        (folder / path).write_text(after)
        return git(folder, "diff") + "\n"


def row(base: str, **changes: Any) -> dict[str, Any]:
    """The task "an area is a product"."""
    return {
        "instance_id": "example__shapes-1",
        "repo": "example/shapes",
        "base_commit": base,
        "patch": diff("shapes/__init__.py", BUGGY, FIXED),
        "test_patch": diff("tests/test_shapes.py", TESTS, HIDDEN),
        "problem_statement": "area(3, 4) gives 7.",
        "hints_text": "Look at the plus sign.",
        "created_at": "2024-01-03T00:00:00Z",
        "version": "1.0",
        "FAIL_TO_PASS": json.dumps(["An area is a product."]),
        "PASS_TO_PASS": json.dumps(["A label has brackets."]),
        "environment_setup_commit": base,
        **changes,
    }


def make_data(
    folder: Path, files: Mapping[str, str | bytes] = {}, **changes: Any
) -> dict[str, Any]:
    """Repository (with more files) and data set there; the parameters to use them with."""
    mirror = folder / "mirrors/example__shapes"
    base = make_repository(mirror, {**FILES, **files})
    path = folder / "shapes.jsonl"
    path.write_text(json.dumps(row(base, **changes)) + "\n")
    return {
        **PARAMETERS,
        "data_path": str(path),
        "repo_url_template": str(folder / "mirrors/{repo_dashed}"),
    }
