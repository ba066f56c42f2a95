"""Which code a run was made with, where it runs from a checkout."""

import subprocess
from functools import cache
from pathlib import Path

import agentcompass

SECONDS = 5


@cache
def code_revision() -> str | None:
    """The commit of our own files, with `+` if they differ from it; None: no checkout."""
    package = Path(agentcompass.__file__).resolve()
    # A package in a virtual environment inside somebody's repository is not of that repository.
    if _git(package.parent, "ls-files", "--error-unmatch", package.name) is None:
        return None
    commit = _git(package.parent, "rev-parse", "HEAD")
    if commit is None:
        return None
    top = _git(package.parent, "rev-parse", "--show-toplevel") or str(package.parent)
    changed = _git(Path(top), "status", "--porcelain", "--untracked-files=no", "--", "*.py")
    return commit + ("+" if changed else "")


def _git(folder: Path, *words: str) -> str | None:
    """What it says; None if there is no git, no repository, or no answer."""
    try:
        done = subprocess.run(
            ["git", "--no-optional-locks", "-C", str(folder), *words],
            capture_output=True,
            timeout=SECONDS,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.decode("utf-8", "replace").strip()
