"""A small git repository made from packaged files, and the agent's work on it as a patch.

The repository is the same on every machine, commit hashes included. The patch is taken against
its last commit, which is made again from the package in the private folder of _patch.py.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from agentcompass.components.benchmarks._patch import (
    START_PRIVATE,
    Patch,
    failure,
    private_folder,
    read_patch,
    run_script,
    take_against,
)
from agentcompass.components.contracts.errors import Code
from agentcompass.components.contracts.frozen import Frozen
from agentcompass.components.contracts.sandbox import Environment


class File(Frozen):
    content: bytes
    mode: int = 0o644


@dataclass(frozen=True)
class Commit:
    message: str
    date: int
    """Seconds since 1970, UTC."""
    files: Mapping[str, File] = field(default_factory=dict)
    """Files this commit adds or changes, whole."""
    deleted: Sequence[str] = ()
    author: str = "Robin Example <robin@example.org>"


async def make_repository(env: Environment, commits: Sequence[Commit]) -> None:
    """Make the repository in the workdir, on branch `main`. Raises environment.setup.

    Files that stand there already (a set-up step's) are ignored by it from now on.
    """
    result = await run_script(env, _MAKE, stdin=import_stream(commits))
    if not result.ok:
        raise failure(Code.ENVIRONMENT_SETUP, "making the task's git repository", result)


async def take_patch(env: Environment, commits: Sequence[Commit]) -> Patch:
    """Everything that differs from the base: committed, staged, changed and new files.

    The patch has been applied to the base on the spot and gave the same tree.
    """
    async with private_folder(env) as folder:
        taken = await run_script(env, _TAKE, folder, stdin=import_stream(commits))
        return await read_patch(env, folder, taken)


async def apply_patch(env: Environment, patch: bytes) -> None:
    """Apply to a repository just made. Raises grader.crashed: the patch was proven to apply."""
    result = await run_script(env, _APPLY, stdin=patch)
    if not result.ok:
        raise failure(Code.GRADER_CRASHED, "applying the patch", result)


def import_stream(commits: Sequence[Commit]) -> bytes:
    """The commits as a `git fast-import` stream."""
    parts: list[bytes] = []
    for commit in commits:
        author = f"{commit.author} {commit.date} +0000\n"
        parts.append(b"commit refs/heads/main\n")
        parts.append(f"author {author}committer {author}".encode())
        parts.append(_data(commit.message.encode() + b"\n"))
        parts += [f"D {_quoted(path)}\n".encode() for path in commit.deleted]
        for path, file in commit.files.items():
            mode = "100755" if file.mode & 0o111 else "100644"
            parts.append(f"M {mode} inline {_quoted(path)}\n".encode() + _data(file.content))
    parts.append(b"done\n")
    return b"".join(parts)


def _data(content: bytes) -> bytes:
    return b"data %d\n%s\n" % (len(content), content)


def _quoted(path: str) -> str:
    return '"' + path.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


_MAKE = """\
git init -q --template= .
git symbolic-ref HEAD refs/heads/main
git config core.autocrlf false
git config core.logAllRefUpdates false  # the reflog starts with the agent
git config user.name Agent
git config user.email agent@example.org
git fast-import --quiet --done
git read-tree HEAD
mkdir -p .git/info
git -c core.quotePath=false ls-files --others \\
  | sed 's/[][\\\\*?]/\\\\&/g; s|^|/|' >.git/info/exclude
git reset -q --hard
git config --unset core.logAllRefUpdates
"""

_TAKE = f"""\
{START_PRIVATE}
if [ -f .git/info/exclude ] && [ ! -L .git/info/exclude ]; then
  cat .git/info/exclude >>"$GIT_DIR/info/exclude"
fi
git fast-import --quiet --done
{take_against("refs/heads/main")}
"""

_APPLY = """\
echo "* $neutral" >.git/info/attributes
git -c core.autocrlf=false apply --whitespace=nowarn -
"""
