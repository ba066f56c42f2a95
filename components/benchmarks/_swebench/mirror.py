"""A repository up to one commit, taken from a mirror, for sandboxes without a network.

A mirror is a local folder that the user names, or is fetched whole, once, and kept:

    swebench/mirrors/<owner>--<name>.git            what the URL offers
    swebench/repositories/<owner>--<name>/<commit>[-<depth>]/
      repository.pack    every object reachable from the commit, and nothing else
      shallow            commits whose parents are left out; empty for the whole history
      tags               "<commit> <name>" of each tag on the way to the commit
"""

import os
import shutil
import subprocess
import tempfile
from contextlib import AbstractContextManager
from pathlib import Path

from agentcompass.components.contracts.errors import AgentCompassError, Code

FETCH_SECONDS = 1800.0
SERVE_ANY = "git -c safe.directory=* -c uploadpack.allowAnySHA1InWant=true upload-pack"
"""For a mirror that is a local folder, whoever owns it."""


def repository_url(template: str, repo: str) -> str:
    """`{repo}` is owner/name, `{repo_dashed}` owner__name, `{owner}` and `{name}` the parts."""
    owner, _, name = repo.partition("/")
    values = {"repo": repo, "repo_dashed": f"{owner}__{name}", "owner": owner, "name": name}
    return os.path.expanduser(template.format(**values))  # noqa: PTH111 (may be a URL)


def repository_pack(
    data_dir: Path, url: str, repo: str, commit: str, depth: int | None = None
) -> Path:
    """The folder of a commit, made if it is not there. Blocking.

    `depth`: at least so many commits of history, and those since the last tag (many packages
    read their version off it); None: all of it. Raises environment.setup.
    """
    suffix = f"-{depth}" if depth else ""
    target = data_dir / "swebench/repositories" / repo.replace("/", "--") / f"{commit}{suffix}"
    with _locked(target):
        if not (target / "repository.pack").is_file():
            mirror = mirror_with(data_dir, url, repo, commit)
            with tempfile.TemporaryDirectory(dir=target.parent) as folder:
                made = _make(Path(folder), mirror, commit, depth)
                shutil.rmtree(target, ignore_errors=True)
                made.rename(target)
    return target


def file_at(mirror: Path, commit: str, path: str) -> str | None:
    """The text of a file in a commit; None: not there."""
    done = _git(mirror, "show", f"{commit}:{path}", check=False)
    return done.stdout.decode("utf-8", "replace") if done.returncode == 0 else None


def mirror_with(data_dir: Path, url: str, repo: str, commit: str) -> Path:
    """A local repository that has the commit. Blocking. Raises environment.setup."""
    if Path(url).is_dir():
        mirror = _git_folder(Path(url))
        if not _has(mirror, commit):
            raise _failure(url, commit, "it is not there")
        return mirror
    mirror = data_dir / "swebench/mirrors" / f"{repo.replace('/', '--')}.git"
    with _locked(mirror):
        if not mirror.is_dir():
            mirror.mkdir(parents=True)
            _git(mirror, "init", "-q", "--bare", "--template=", ".")
        if not _has(mirror, commit):
            everything = ("+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*")
            words = ("--quiet", "--prune", "--no-auto-maintenance", url)
            done = _git(mirror, "fetch", *words, *everything, check=False)
            if done.returncode == 0 and not _has(mirror, commit):
                done = _git(mirror, "fetch", *words, commit, check=False)
            if done.returncode != 0 or not _has(mirror, commit):
                reason = done.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2]
                raise _failure(url, commit, reason or "it is not there")
    return mirror


def _make(folder: Path, mirror: Path, commit: str, depth: int | None) -> Path:
    git, done = folder / "git", folder / "done"
    git.mkdir()
    done.mkdir()
    _git(git, "init", "-q", "--bare", "--template=", ".")
    if depth:
        depth = max(depth, 1 + _since_last_tag(mirror, commit))
    _git(
        git,
        "fetch",
        *("--quiet", "--no-tags", "--no-auto-maintenance", "--upload-pack", SERVE_ANY),
        *(("--depth", str(depth)) if depth else ()),
        f"file://{mirror.resolve()}",
        f"{commit}:refs/heads/main",
    )
    packed = _git(git, "pack-objects", "--revs", "--stdout", "-q", stdin=f"{commit}\n".encode())
    (done / "repository.pack").write_bytes(packed.stdout)
    shallow = git / "shallow"
    (done / "shallow").write_bytes(shallow.read_bytes() if shallow.is_file() else b"")
    there = set(_git(git, "rev-list", commit).stdout.decode().split())
    tags = [line for line in _tags(mirror) if line.split(" ")[0] in there]
    (done / "tags").write_text("".join(f"{line}\n" for line in tags), encoding="utf-8")
    return done


def _since_last_tag(mirror: Path, commit: str) -> int:
    found = _git(mirror, "describe", "--tags", "--abbrev=0", commit, check=False)
    if found.returncode != 0:
        return 0
    tag = found.stdout.decode().strip()
    return int(_git(mirror, "rev-list", "--count", f"refs/tags/{tag}..{commit}").stdout)


def _tags(mirror: Path) -> list[str]:
    form = "--format=%(objectname) %(*objectname) %(refname:strip=2)"
    lines = _git(mirror, "for-each-ref", form, "refs/tags").stdout.decode().splitlines()
    parts = [(line.split()[-2], line.split()[-1]) for line in lines]  # the peeled one, if there
    return [f"{commit} {name}" for commit, name in parts]


def _has(mirror: Path, commit: str) -> bool:
    return _git(mirror, "cat-file", "-e", f"{commit}^{{commit}}", check=False).returncode == 0


def _git_folder(path: Path) -> Path:
    return path / ".git" if (path / ".git").is_dir() else path


def _git(
    folder: Path | str, *words: str, stdin: bytes = b"", check: bool = True
) -> subprocess.CompletedProcess[bytes]:
    try:
        done = subprocess.run(
            ["git", "-c", "safe.directory=*", *words],
            cwd=folder,
            input=stdin,
            capture_output=True,
            timeout=FETCH_SECONDS,
            env={
                **os.environ,
                "GIT_DIR": ".",
                "GIT_TERMINAL_PROMPT": "0",
                "GIT_ASKPASS": "false",
                "LC_ALL": "C",
            },
        )
    except FileNotFoundError:
        raise AgentCompassError(
            Code.ENVIRONMENT_SETUP, "preparation git_clone needs git on this machine"
        ) from None
    except subprocess.TimeoutExpired:
        raise AgentCompassError(
            Code.ENVIRONMENT_SETUP, f"git {words[0]} did not end within {FETCH_SECONDS:g} s"
        ) from None
    if check and done.returncode != 0:
        reason = done.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2]
        raise AgentCompassError(Code.ENVIRONMENT_SETUP, f"git {words[0]} failed: {reason[:300]}")
    return done


def _failure(url: str, commit: str, reason: str) -> AgentCompassError:
    return AgentCompassError(
        Code.ENVIRONMENT_SETUP,
        f"commit {commit[:12]} cannot be fetched from {_without_password(url)}: {reason[:300]} "
        "(benchmark-params.repo_url_template says where from)",
    )


def _without_password(url: str) -> str:
    scheme, separator, rest = url.partition("://")
    return scheme + separator + rest.rpartition("@")[2] if separator else url


def _locked(target: Path) -> AbstractContextManager[object]:
    """One process at a time makes a folder."""
    from filelock import FileLock

    target.parent.mkdir(parents=True, exist_ok=True)
    return FileLock(f"{target}.lock")
