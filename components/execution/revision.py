"""Which code a run was made with: the commit of a checkout, and a hash of the sources."""

import hashlib
import os
from functools import cache
from pathlib import Path

import agentcompass


@cache
def source_hash() -> str:
    """Over every Python file of the package, so that local changes show. ~30 ms. Blocking."""
    package, total = Path(agentcompass.__file__).parent, hashlib.sha256()
    for folder, folders, names in os.walk(package, followlinks=True):
        folders.sort()
        for name in sorted(name for name in names if name.endswith(".py")):
            path = Path(folder, name)
            total.update(f"{path.relative_to(package)}\0".encode())
            total.update(path.read_bytes() + b"\0")
    return total.hexdigest()[:16]


def code_revision() -> str | None:
    """The commit that is checked out, read without git; None: installed without a repository."""
    for folder in Path(agentcompass.__file__).resolve().parents:
        if (folder / "pyproject.toml").is_file():  # not that of a repository around an environment
            return _commit(folder / ".git")
    return None


def _commit(repository: Path) -> str | None:
    try:
        head = (repository / "HEAD").read_text(encoding="utf-8").strip()
        reference = head.removeprefix("ref: ")
        if reference == head:
            return head
        if (repository / reference).is_file():
            return (repository / reference).read_text(encoding="utf-8").strip()
        packed = (repository / "packed-refs").read_text(encoding="utf-8").splitlines()
    except OSError:  # none, or a work tree of another one
        return None
    return next((line.split()[0] for line in packed if line.endswith(f" {reference}")), None)
