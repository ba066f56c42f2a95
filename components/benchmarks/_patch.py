"""The agent's work as a patch, taken in a private git folder and checked on the spot.

The private folder has its own index, objects and settings, so nothing the agent did to `.git`
matters: commits, staged changes, moved branches, hooks, filters, even a deleted `.git`. What the
base is, and how it comes into the private folder, is the caller's: `start_private` and
`take_against` are two parts of the caller's script. The patch travels as bytes.
"""

import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

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


class Patch(Frozen):
    content: bytes
    """`git diff --binary --full-index` against the base; empty if nothing changed."""
    left_out: tuple[str, ...] = ()
    """"path: reason" for what the patch does not hold."""


async def read_patch(env: Environment, folder: str, taken: ExecResult) -> Patch:
    """What a script that ends with `take_against` left. Raises artifact.failed."""
    if not taken.ok:
        raise failure(Code.ARTIFACT_FAILED, "reading the patch", taken)
    try:
        content = await env.read_file(f"{folder}/patch", max_bytes=PATCH_LIMIT_BYTES)
    except ValueError:
        return Patch(content=b"", left_out=(f"the patch: over {PATCH_LIMIT_BYTES} bytes",))
    except OSError as error:
        raise AgentCompassError(Code.ARTIFACT_FAILED, f"the patch is gone: {error}") from None
    return Patch(content=content, left_out=tuple(taken.stdout.split("\n")[:-1]))


@asynccontextmanager
async def private_folder(env: Environment) -> AsyncIterator[str]:
    """A name in the workdir, the first word of the scripts; what stands there is removed."""
    folder = f".agentcompass-{secrets.token_hex(8)}"
    try:
        yield folder
    finally:
        await env.exec(["rm", "-rf", folder])


async def run_script(
    env: Environment,
    body: str,
    *words: str,
    stdin: bytes | None = None,
    timeout_seconds: float | None = None,
) -> ExecResult:
    """In the workdir, out of reach of the machine's git settings."""
    return await env.exec(
        ["sh", "-c", NEUTRAL + body, "sh", *words],
        stdin=stdin,
        timeout_seconds=timeout_seconds,
        output_limit_kb=1024,
    )


def failure(code: Code, what: str, result: ExecResult) -> AgentCompassError:
    if result.exit_code == 127 and "git" in result.stderr:
        return AgentCompassError(code, f"{what} needs git in the sandbox: use an image that has it")
    ended = "no end" if result.timed_out else f"exit {result.exit_code}"
    reason = result.stderr.strip().rpartition("\n")[2][:300]
    if "No space left on device" in result.stderr:
        code = Code.ENVIRONMENT_DISK_FULL
    return AgentCompassError(code, f"{what} failed ({ended}): {reason}")


def take_against(base: str) -> str:
    """Shell lines for the private folder: what differs from a tree of its objects.

    They end with `patch` in the folder and what is left out on stdout.
    """
    return f"""\
export GIT_WORK_TREE="$PWD"
git read-tree {base}
{_WITHOUT_TRAPS}
leave_out() {{
  sed 's|^[.]/||' | while IFS= read -r path; do
    printf '%s: %s\\n' "$path" "$1"
    printf '%s\\n' "/$path" | sed 's/[][\\\\*?]/\\\\&/g' >>"$GIT_DIR/info/exclude"
  done
}}
find . -mindepth 2 -name .git -not -path './.git/*' -not -path "./$1/*" 2>/dev/null \
  | sed 's|/[.]git$||' | leave_out 'a git repository of its own'
find . -name .git -prune -o -path "./$1" -prune -o -type f -size +{FILE_LIMIT_KB}k -print \
  2>/dev/null \
  | sed 's|^[.]/||' | while IFS= read -r path; do
      git ls-files --others --exclude-standard -- "$path" | grep -q . && printf '%s\\n' "$path"
      true
    done | leave_out 'over {FILE_LIMIT_KB} KiB'

git add -A --ignore-errors . 2>"$d/errors" || sed -n 's/^error: //p' "$d/errors"
tree=$(git write-tree)
git diff --cached --binary --full-index --no-color --no-ext-diff --no-textconv --no-renames \
  --src-prefix=a/ --dst-prefix=b/ {base} >"$d/patch"

export GIT_INDEX_FILE="$d/check"
git read-tree {base}
if [ -s "$d/patch" ]; then git apply --cached --whitespace=nowarn "$d/patch"; fi
if [ "$(git write-tree)" != "$tree" ]; then
  echo "the patch does not give back the tree it was taken from" >&2
  exit 3
fi
"""


NEUTRAL = """\
set -eu
export LC_ALL=C GIT_CONFIG_NOSYSTEM=1 GIT_CONFIG_GLOBAL=/dev/null GIT_ATTR_NOSYSTEM=1
export HOME=/nonexistent XDG_CONFIG_HOME=/nonexistent GIT_TERMINAL_PROMPT=0
unset GIT_DIR GIT_WORK_TREE GIT_INDEX_FILE
command -v git >/dev/null || { echo "git: not found" >&2; exit 127; }
neutral='-text -eol -ident -filter -working-tree-encoding !diff'
"""
"""No setting of the machine or of a user reaches git; no file is converted on its way."""

START_PRIVATE = f"""\
mkdir -p "$1"
d="$PWD/$1"
export GIT_DIR="$d/git" HOME="$d" XDG_CONFIG_HOME="$d" GIT_LITERAL_PATHSPECS=1
git init -q --bare --template= "$GIT_DIR"
mkdir -p "$GIT_DIR/info"
for setting in core.autocrlf=false core.safecrlf=false core.fileMode=true core.symlinks=true \
    core.bare=false core.quotePath=false core.fsmonitor=false gc.auto=0; do
  git config "${{setting%%=*}}" "${{setting#*=}}"
done
echo "* $neutral" >"$GIT_DIR/info/attributes"
printf '%s\\n' {" ".join(f"'{pattern}'" for pattern in DROPPINGS)} >"$GIT_DIR/info/exclude"
"""
"""Shell lines for the workdir: the private folder, `$1`, with no object in it yet."""

_WITHOUT_TRAPS = """\
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
    printf "%s: neither a file nor a folder\\n" "${path#./}"
  done' sh {} + 2>/dev/null || true
"""
"""Shell lines for the workdir, `$1` in it left alone: remove what would hang git, and say so."""
