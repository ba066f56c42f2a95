"""A git repository's files at one revision, kept under the data directory for use offline.

<data-dir>/git/<name>-<hash of the address>/
  refs.json            revision name → commit it stood for when last asked
  <commit>/            the files, complete: moved here as a whole once they are all there
"""

import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from agentcompass.components.contracts.errors import PreflightRefused, RequestError

FETCH_SECONDS = 1800
ASK_SECONDS = 60
_COMMIT = re.compile(r"[0-9a-f]{40}")


def read_git(address: str, revision: str | None, data_dir: Path, field: str) -> tuple[str, Path]:
    """(commit, folder with the files). Blocking.

    A commit that is at hand costs no network; a branch or tag is asked for each time, and what
    it stood for last serves when nobody answers. Raises RequestError (unknown revision) or
    PreflightRefused (unreachable, no git).
    """
    name = re.sub(r"[^A-Za-z0-9._-]", "-", address.rstrip("/").rpartition("/")[2]) or "repository"
    store = data_dir / "git" / f"{name}-{hashlib.sha256(address.encode()).hexdigest()[:12]}"
    wanted = revision or "HEAD"
    fixed = _COMMIT.fullmatch(wanted) is not None
    commit = wanted if fixed else _commit_of(address, wanted, store, field)
    folder = store / commit
    if not folder.is_dir():
        _make(store)
        with _alone(store):
            if not folder.is_dir():
                _fetch(address, commit, folder)
    if not fixed:
        _remember(store, wanted, commit)
    return commit, folder


def _commit_of(address: str, revision: str, store: Path, field: str) -> str:
    """What a branch or tag stands for now."""
    names = [revision] if revision == "HEAD" else [f"refs/tags/{revision}^{{}}"]
    if revision != "HEAD":
        names += [f"refs/tags/{revision}", f"refs/heads/{revision}", revision]
    try:
        listed = _git(None, "ls-remote", "--", address, *names, seconds=ASK_SECONDS)
    except _GitFailed as error:
        known = _refs(store).get(revision)
        if known and (store / known).is_dir():
            return known
        raise _unreachable(address, error) from None
    rows = (line.partition("\t") for line in listed.splitlines())
    found = {name: commit for commit, _, name in rows}
    for name in names:
        if name in found:
            return found[name]
    raise RequestError(field, f"{address} has no branch or tag {revision!r}", "give a full commit")


def _fetch(address: str, commit: str, folder: Path) -> None:
    """Only that commit, where the server allows it; else everything, then that commit."""
    scratch = Path(tempfile.mkdtemp(dir=folder.parent, prefix=".fetching-"))
    try:
        _git(scratch, "init", "-q")
        try:
            _git(scratch, "fetch", "-q", "--depth", "1", "--", address, commit)
        except _GitFailed:
            _git(scratch, "fetch", "-q", "--tags", "--", address, "+refs/heads/*:refs/heads/all/*")
        _git(scratch, "-c", "core.autocrlf=false", "checkout", "-q", "--force", commit)
        shutil.rmtree(scratch / ".git")
        scratch.rename(folder)
    except _GitFailed as error:
        raise _unreachable(address, error) from None
    except OSError as error:
        raise PreflightRefused(
            (f"{address} cannot be kept under {folder.parent}: {error.strerror}",)
        ) from error
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


class _GitFailed(Exception):
    """git's last line, or what kept it from running."""


def _git(folder: Path | None, *arguments: str, seconds: float = FETCH_SECONDS) -> str:
    where = [] if folder is None else ["-C", str(folder)]
    # No prompt may wait for a person; large files of LFS are fetched only if git-lfs is set up.
    quiet = {"GIT_TERMINAL_PROMPT": "0", "GIT_ASKPASS": "false", "SSH_ASKPASS": "false"}
    try:
        done = subprocess.run(
            ["git", *where, *arguments],
            capture_output=True,
            timeout=seconds,
            stdin=subprocess.DEVNULL,
            env={**os.environ, **quiet, "LC_ALL": "C"},
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise _GitFailed(f"no end after {seconds:g} s") from None
    except FileNotFoundError:
        raise _GitFailed("git is not installed") from None
    if done.returncode:
        lines = done.stderr.decode("utf-8", "replace").strip().splitlines()
        raise _GitFailed(lines[-1] if lines else f"git ended with {done.returncode}")
    return done.stdout.decode("utf-8", "replace")


def _unreachable(address: str, error: Exception) -> PreflightRefused:
    return PreflightRefused(
        (f"{address} cannot be read: {error}; set benchmark-params.data_path to a local copy",)
    )


def _refs(store: Path) -> dict[str, str]:
    try:
        value = json.loads((store / "refs.json").read_bytes())
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


def _remember(store: Path, name: str, commit: str) -> None:
    if _refs(store).get(name) == commit:
        return
    handle, temporary = tempfile.mkstemp(dir=store, prefix="refs.json")
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        json.dump({**_refs(store), name: commit}, file, indent=1, sort_keys=True)
    Path(temporary).replace(store / "refs.json")


def _make(store: Path) -> None:
    try:
        store.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise PreflightRefused((f"{store} cannot be made: {error.strerror}",)) from error


@contextmanager
def _alone(store: Path) -> Iterator[None]:
    """Two runs that need the same data fetch it once."""
    with (store / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
