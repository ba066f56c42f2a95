"""A small git repository made from packaged files, and the agent's work on it as a patch.

The repository is the same on every machine, commit hashes included. The patch is taken against
its last commit in a private git folder (own index, own objects, own settings, the base made
again from the package), so nothing the agent did to `.git` matters: commits, staged changes,
moved branches, hooks, filters, even a deleted `.git`. It travels as bytes.
"""

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from agentcompass.components.contracts.errors import AgentCompassError, Code
from agentcompass.components.contracts.frozen import Frozen
from agentcompass.components.contracts.sandbox import Environment, ExecResult

FILE_LIMIT_KB = 16 * 1024
"""A larger file is left out of the patch, by name."""
PATCH_LIMIT_BYTES = 64 * 1024 * 1024

DROPPINGS = (
    "__pycache__/",
    "*.py[cod]",
    ".pytest_cache/",
    ".mypy_cache/",
    ".ruff_cache/",
    ".agentcompass*",
    ".aider*",
    ".claude/",
    ".claude.json",
    ".codex/",
    ".gemini/",
    ".mini-swe-agent/",
    ".openhands/",
    ".opencode/",
    ".qwen/",
)
"""What interpreters and agent programs leave behind, as git ignore patterns: never part of work."""


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


class Patch(Frozen):
    content: bytes
    """`git diff --binary --full-index` against the base; empty if nothing changed."""
    left_out: tuple[str, ...] = ()
    """"path: reason" for what the patch does not hold."""


async def make_repository(env: Environment, commits: Sequence[Commit]) -> None:
    """Make the repository in the workdir, on branch `main`. Raises environment.setup.

    Files that stand there already (a set-up step's) are ignored by it from now on.
    """
    result = await _script(env, _MAKE, stdin=import_stream(commits))
    if not result.ok:
        raise _failure(Code.ENVIRONMENT_SETUP, "making the task's git repository", result)


async def take_patch(env: Environment, commits: Sequence[Commit]) -> Patch:
    """Everything that differs from the base: committed, staged, changed and new files.

    The patch has been applied to the base on the spot and gave the same tree.
    """
    folder = f".agentcompass-{secrets.token_hex(8)}"
    try:
        result = await _script(env, _TAKE, folder, stdin=import_stream(commits))
        if not result.ok:
            raise _failure(Code.ARTIFACT_FAILED, "reading the patch", result)
        left_out = tuple(result.stdout.split("\n")[:-1])
        content = await env.read_file(f"{folder}/patch", max_bytes=PATCH_LIMIT_BYTES)
    except ValueError:
        return Patch(content=b"", left_out=(f"the patch: over {PATCH_LIMIT_BYTES} bytes",))
    except OSError as error:
        raise AgentCompassError(Code.ARTIFACT_FAILED, f"the patch is gone: {error}") from None
    finally:
        await env.exec(["rm", "-rf", folder])
    return Patch(content=content, left_out=left_out)


async def apply_patch(env: Environment, patch: bytes) -> None:
    """Apply to a repository just made. Raises grader.crashed: the patch was proven to apply."""
    result = await _script(env, _APPLY, stdin=patch)
    if not result.ok:
        raise _failure(Code.GRADER_CRASHED, "applying the patch", result)


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


async def _script(env: Environment, body: str, *args: str, stdin: bytes) -> ExecResult:
    script = NEUTRAL + body
    return await env.exec(["sh", "-c", script, "sh", *args], stdin=stdin, output_limit_kb=1024)


def _failure(code: Code, what: str, result: ExecResult) -> AgentCompassError:
    if result.exit_code == 127 and "git" in result.stderr:
        return AgentCompassError(code, f"{what} needs git in the sandbox: use an image that has it")
    ended = "no end" if result.timed_out else f"exit {result.exit_code}"
    reason = result.stderr.strip().rpartition("\n")[2][:300]
    if "No space left on device" in result.stderr:
        code = Code.ENVIRONMENT_DISK_FULL
    return AgentCompassError(code, f"{what} failed ({ended}): {reason}")


NEUTRAL = """\
set -eu
export LC_ALL=C GIT_CONFIG_NOSYSTEM=1 GIT_CONFIG_GLOBAL=/dev/null GIT_ATTR_NOSYSTEM=1
export HOME=/nonexistent XDG_CONFIG_HOME=/nonexistent GIT_TERMINAL_PROMPT=0
unset GIT_DIR GIT_WORK_TREE GIT_INDEX_FILE
command -v git >/dev/null || { echo "git: not found" >&2; exit 127; }
neutral='-text -eol -ident -filter -working-tree-encoding !diff'
"""
"""No setting of the machine or of a user reaches git; no file is converted on its way."""

WITHOUT_TRAPS = """\
# Git reads these by their name, and would wait for ever at a pipe or a device.
find . -path ./.git -prune -o -path "./$1" -prune \\
  -o -name '.git?*' ! -type f ! -type d -exec sh -c '
  for path; do
    if [ -L "$path" ]; then
      case $(readlink -f "$path") in
        /proc/*|/dev/*|/sys/*) ;;
        *) if [ ! -e "$path" ] || [ -f "$path" ] || [ -d "$path" ]; then continue; fi ;;
      esac
    fi
    rm -f -- "$path"
    printf "%s: neither a file nor a folder\n" "${path#./}"
  done' sh {} + 2>/dev/null || true
"""
"""Shell lines for the workdir, `$1` in it left alone: remove what would hang git, and say so."""

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
mkdir "$1"
d="$PWD/$1"
export GIT_DIR="$d/git" HOME="$d" XDG_CONFIG_HOME="$d"
git init -q --bare --template= "$GIT_DIR"
mkdir -p "$GIT_DIR/info"
for setting in core.autocrlf=false core.safecrlf=false core.fileMode=true core.symlinks=true \
    core.bare=false core.quotePath=false core.fsmonitor=false gc.auto=0; do
  git config "${{setting%%=*}}" "${{setting#*=}}"
done
echo "* $neutral" >"$GIT_DIR/info/attributes"
{{
  printf '%s\\n' {" ".join(f"'{pattern}'" for pattern in DROPPINGS)}
  if [ -f .git/info/exclude ] && [ ! -L .git/info/exclude ]; then cat .git/info/exclude; fi
}} >"$GIT_DIR/info/exclude"
git fast-import --quiet --done
export GIT_WORK_TREE="$PWD"
git read-tree refs/heads/main
{WITHOUT_TRAPS}
leave_out() {{
  sed 's|^[.]/||' | while IFS= read -r path; do
    printf '%s: %s\\n' "$path" "$1"
    printf '%s\\n' "/$path" | sed 's/[][\\\\*?]/\\\\&/g' >>"$GIT_DIR/info/exclude"
  done
}}
find . -mindepth 2 -name .git -not -path './.git/*' -not -path "./$1/*" 2>/dev/null \
  | sed 's|/[.]git$||' | leave_out 'a git repository of its own'
find . -name .git -prune -o -type f -size +{FILE_LIMIT_KB}k -not -path "./$1/*" -print 2>/dev/null \
  | while IFS= read -r path; do
      git check-ignore -q "$path" || printf '%s\\n' "$path"
    done | leave_out 'over {FILE_LIMIT_KB} KiB'

git add -A --ignore-errors . 2>"$d/errors" || sed -n 's/^error: //p' "$d/errors"
tree=$(git write-tree)
git diff --cached --binary --full-index --no-color --no-ext-diff --no-textconv --no-renames \
  --src-prefix=a/ --dst-prefix=b/ refs/heads/main >"$d/patch"

export GIT_INDEX_FILE="$d/check"
git read-tree refs/heads/main
if [ -s "$d/patch" ]; then git apply --cached --whitespace=nowarn "$d/patch"; fi
if [ "$(git write-tree)" != "$tree" ]; then
  echo "the patch does not give back the tree it was taken from" >&2
  exit 3
fi
"""

_APPLY = """\
echo "* $neutral" >.git/info/attributes
git -c core.autocrlf=false apply --whitespace=nowarn -
"""
