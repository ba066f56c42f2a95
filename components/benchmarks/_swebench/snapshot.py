"""The working tree as it was prepared, kept on this machine, and the agent's work as a patch on it.

The base is not a commit but what really stands in the directory once everything is set up: files
that a checkout converted (line ends), that set-up steps changed or added. It is named by the hash
of its git tree and kept under the data directory as a pack of objects, so nothing the agent does
to the repository in the sandbox matters.

    swebench/bases/<tree hash>.pack
"""

import asyncio
import os
import re
import tempfile
from pathlib import Path

from agentcompass.components.benchmarks._patch import (
    START_PRIVATE,
    Patch,
    failure,
    private_folder,
    read_patch,
    run_script,
    take_against,
)
from agentcompass.components.contracts.errors import AgentCompassError, Code
from agentcompass.components.contracts.frozen import Frozen
from agentcompass.components.contracts.sandbox import Environment, ExecResult

GIT_SECONDS = 900.0
_REFUSED = re.compile(
    r"error: (patch failed: .*|.*: patch does not apply|binary patch does not apply to .*"
    r"|.*: does not exist in index|.*: No such file or directory|.*: Not a directory"
    r"|.*: already exists in working directory|.*: wrong type|.* beyond a symbolic link"
    r"|the patch applies to .*|removal patch leaves file contents"
    r"|unable to write file .*: (Directory not empty|File exists|(Is|Not) a directory))"
)
"""What git says of a patch that is not for these files (git's apply.c). The last ones: a file of it
stands where a folder has to be, or the other way round."""
BASE_LIMIT_BYTES = 1024 * 1024 * 1024


class Base(Frozen):
    """What the agent starts from."""

    tree: str
    """Hash of the git tree."""
    ignored: str
    """Git ignore patterns for what set-up left that is no part of the work."""


async def take_base(env: Environment, data_dir: Path) -> Base:
    """Record the prepared working tree. Raises environment.setup."""
    try:
        async with private_folder(env) as folder:
            done = await _script(env, START_PRIVATE + _BASE, folder)
            if not done.ok:
                raise failure(Code.ENVIRONMENT_SETUP, "recording the prepared files", done)
            ignored = await env.read_file(f"{folder}/ignored")
            base = Base(
                tree=done.stdout.strip(), ignored=ignored.decode("utf-8", "surrogateescape")
            )
            path = _pack(data_dir, base)
            if not path.is_file():
                done = await _script(env, _AGAIN + _PACK, folder, base.tree)
                if not done.ok:
                    raise failure(Code.ENVIRONMENT_SETUP, "packing the prepared files", done)
                content = await env.read_file(f"{folder}/pack", max_bytes=BASE_LIMIT_BYTES)
                await asyncio.to_thread(_keep, path, content)
    except (OSError, ValueError) as error:
        raise AgentCompassError(
            Code.ENVIRONMENT_SETUP, f"the prepared files cannot be recorded: {error}"
        ) from None
    return base


async def take_patch(env: Environment, base: Base, data_dir: Path) -> Patch:
    """All that differs from the base: committed, staged, changed and new files, as bytes.

    The patch has been applied to the base on the spot and gave the same tree. Raises
    artifact.failed.
    """
    async with private_folder(env) as folder:
        try:
            pack = await asyncio.to_thread(_pack(data_dir, base).read_bytes)
            await env.write_file(f"{folder}/pack", pack)
            ignored = base.ignored.encode("utf-8", "surrogateescape")
            await env.write_file(f"{folder}/ignored", ignored)
        except OSError as error:
            raise AgentCompassError(Code.ARTIFACT_FAILED, f"the base is gone: {error}") from None
        taken = await _script(env, START_PRIVATE + _TAKE, folder, base.tree)
        return await read_patch(env, folder, taken)


async def apply_patch(
    env: Environment,
    patch: bytes,
    *,
    without: tuple[str, ...] = (),
    only: tuple[str, ...] = (),
    neutral: bool = True,
    reverse: bool = False,
) -> str:
    """Apply to the working tree, all of it or nothing. Returns "" or why it does not apply.

    Raises grader.crashed or environment.disk_full for any other trouble: it says nothing about
    the patch.

    `neutral`: byte for byte, as the patches taken here are; else by the repository's attributes.

    `without`, `only`: paths in it that are left out, or alone considered; `*` stands for any text.
    """
    words = [f"--exclude={path}" for path in without] + [f"--include={path}" for path in only]
    words += ["-R"] if reverse else []
    async with private_folder(env) as folder:
        await env.write_file(f"{folder}/patch", patch)
        done = await _script(env, _APPLY, folder, "yes" if neutral else "", *words)
    if done.ok:
        return ""
    lines = [line for line in done.stderr.splitlines() if line.startswith(("error:", "fatal:"))]
    if done.exit_code in (1, 128) and lines and all(map(_REFUSED.fullmatch, lines)):
        return "; ".join(lines[:5])[:1000]
    raise failure(Code.GRADER_CRASHED, "applying a patch", done)


def literal(path: str) -> str:
    """The path as a pattern that means only itself."""
    return "".join(f"\\{letter}" if letter in "*?[]\\" else letter for letter in path)


def _pack(data_dir: Path, base: Base) -> Path:
    return data_dir / "swebench/bases" / f"{base.tree}.pack"


def _keep(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.name)
    with os.fdopen(handle, "wb") as file:
        file.write(content)
    Path(temporary).replace(path)


async def _script(env: Environment, body: str, *words: str) -> ExecResult:
    return await run_script(env, body, *words, timeout_seconds=GIT_SECONDS)


_AGAIN = """\
d="$PWD/$1"
export GIT_DIR="$d/git" GIT_WORK_TREE="$PWD" HOME="$d" XDG_CONFIG_HOME="$d"
if [ -d .git/objects ]; then export GIT_ALTERNATE_OBJECT_DIRECTORIES="$PWD/.git/objects"; fi
"""

_BASE = """\
# Built by set-up and ignored by the repository: ignored from now on, whatever the agent does to
# the ignore files.
GIT_DIR=.git git -c safe.directory='*' -c core.quotePath=false \\
    ls-files --others --ignored --exclude-standard --directory \\
  | grep -vxF "$1/" | sed 's/[][\\\\*?]/\\\\&/g; s|^|/|' >"$d/ignored"
cat "$d/ignored" >>"$GIT_DIR/info/exclude"
head=$(GIT_DIR=.git git -c safe.directory='*' rev-parse HEAD)
export GIT_WORK_TREE="$PWD" GIT_ALTERNATE_OBJECT_DIRECTORIES="$PWD/.git/objects"
git read-tree "$head"  # so that tracked files count even where an ignore file names them
git add -A .
git write-tree
"""

_PACK = """\
{ echo "$2"; git ls-tree -r -t "$2" \\
  | sed -n -e 's/^[0-9]* blob \\([0-9a-f]*\\).*/\\1/p' -e 's/^[0-9]* tree \\([0-9a-f]*\\).*/\\1/p'
} | sort -u | git pack-objects -q --stdout >"$d/pack"
"""

_TAKE = f"""\
cat "$d/ignored" >>"$GIT_DIR/info/exclude"
git index-pack --stdin <"$d/pack" >/dev/null
git cat-file -e "$2^{{tree}}"
{take_against('"$2"')}
"""

_APPLY = """\
export GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=safe.directory GIT_CONFIG_VALUE_0='*'
mkdir -p .git/info
if [ -n "$2" ]; then echo "* $neutral" >.git/info/attributes; else rm -f .git/info/attributes; fi
patch="$PWD/$1/patch"
shift 2
git -c core.autocrlf=false -c core.quotePath=false apply --whitespace=nowarn "$@" "$patch"
"""
