"""What an agent planted in the sandbox it is graded in: found, put out of the way, and named.

found                                             done
a link or file where tests and rewards will be    removed (see verifier.py)
a program that hides one of the grader's          the original is used: first in the grader's PATH
a new downloader or pytest that no package owns   set aside
a start-up or settings file, new or changed       set aside; if it was there before, put back
a changed program that graders start              nothing this sandbox says counts any more
"""

import hashlib
import re
import secrets
import shlex
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from agentcompass.components.benchmarks._harbor.box import (
    DOWNLOADERS,
    Box,
    Tool,
    record,
)
from agentcompass.components.contracts.errors import AgentCompassError, Code
from agentcompass.components.contracts.sandbox import Environment

ROOTS = {
    "sh": "dash",
    "bash": "bash",
    "env": "coreutils",
    "sha256sum": "coreutils",
    "md5sum": "coreutils",
}
"""What every comparison stands on → the package that has it on Debian and Ubuntu."""
HIDING = sys.stdlib_module_names | {"conftest", "pytest", "sitecustomize", "usercustomize"}
ORIGINAL_MAX_BYTES = 256 * 1024
_PROGRAM_MAX_BYTES = 64 * 1024 * 1024
_INSTALLERS = re.compile(r"(__editable__.*|distutils-precedence|_virtualenv|.*-nspkg)\.pth")
_ENTRY_POINT = re.compile(rb"^\s*(from|import) (_?pytest|pip|uv)\b", re.MULTILINE)


@dataclass
class Tampering:
    findings: list[str] = field(default_factory=list)
    """One line each."""
    replaced: list[str] = field(default_factory=list)
    """Programs that graders start and that are not what they were."""
    path: str | None = None
    """PATH for the grader, if it must differ."""
    aside: dict[str, str] = field(default_factory=dict)
    """Where what was set aside lies → where it stood."""


async def originals(env: Environment, box: Box) -> dict[str, bytes]:
    """The settings files that stand there before the agent, to be put back later. Text only."""
    kept = {}
    for path, digest in box.files.items():
        if digest == "link" or path.endswith(".pth") or "customize.py" in path:
            continue
        try:
            kept[path] = await env.read_file(path, max_bytes=ORIGINAL_MAX_BYTES)
        except (OSError, ValueError):
            continue
    return kept


async def untangle(
    env: Environment,
    before: Box,
    kept: Mapping[str, bytes],
    instruction: str,
    user: str | None,
    root: str | None,
) -> Tampering:
    """Compare with the record, put aside what must not decide. Raises grader.crashed."""
    found = Tampering()
    found.replaced += await _unsound_roots(env, before)
    if found.replaced:
        return found  # even the comparison would be made with them
    now = await record(env, user, root)
    found.findings += [f"{line} stood there before grading" for line in _new_standing(before, now)]
    hidden: dict[str, Tool] = {}
    changed: list[tuple[str, Tool]] = []
    aside: list[str] = []
    for name, tool in now.tools.items():
        was = before.tools.get(name)
        if was is None:
            if name in DOWNLOADERS and not await _legitimate(env, tool, root):
                aside.append(tool.path)
        elif tool.path != was.path:
            hidden[name] = was
            if await _differs(env, was, root):
                changed.append((name, was))
        elif tool.sha256 != was.sha256:
            changed.append((name, tool))
    for _, tool in changed:
        if not await _legitimate(env, tool, root):
            found.replaced.append(tool.path)
    back = []
    for path, digest in now.files.items():
        if digest == before.files.get(path) or await _harmless(env, path, instruction, root):
            continue
        aside.append(path)
        back += [path] if path in kept else []
    await _act(env, found, hidden, aside, {path: kept[path] for path in back}, now.path, root)
    return found


async def give_back(env: Environment, found: Tampering, user: str | None) -> None:
    """The agent works on: it finds its own files where it had them."""
    moves = [word for move in found.aside.items() for word in move]
    script = 'while [ $# -gt 0 ]; do mv -f -- "$1" "$2"; shift 2; done'
    if moves:
        await env.exec(["/bin/sh", "-c", script, "sh", *moves], cwd="/", user=user)


async def _act(
    env: Environment,
    found: Tampering,
    hidden: Mapping[str, Tool],
    aside: Iterable[str],
    back: Mapping[str, bytes],
    path: str,
    user: str | None,
) -> None:
    folder = f"/run/verifier-{secrets.token_hex(8)}"
    lines = ["set -e", f"mkdir -p {folder}/bin {folder}/aside"]
    arguments: list[str] = []
    for number, name in enumerate(dict.fromkeys(aside)):
        arguments.append(name)
        lines.append(f'mv -f -- "${{{len(arguments)}}}" {folder}/aside/{number}')
        found.aside[f"{folder}/aside/{number}"] = name
        found.findings.append(f"{name} was {'put back' if name in back else 'set aside'}")
    for name, tool in hidden.items():
        # A script and not a link: a Python of a virtual environment knows itself by its path.
        start = f'#!/bin/sh\nexec {shlex.quote(tool.path)} "$@"\n'
        arguments += [start, f"{folder}/bin/{name}"]
        one, two = len(arguments) - 1, len(arguments)
        lines.append(f'printf %s "${{{one}}}" > "${{{two}}}"; chmod 755 "${{{two}}}"')
        found.findings.append(f"{name} was hidden by another; {tool.path} is used")
    if hidden:
        found.path = f"{folder}/bin:{path}"
    if not arguments:
        return
    done = await env.exec(["/bin/sh", "-c", "\n".join(lines), "sh", *arguments], cwd="/", user=user)
    if not done.ok:
        last = (done.stderr.strip() or "no output").splitlines()[-1]
        raise AgentCompassError(
            Code.GRADER_CRASHED, f"what the agent planted cannot be set aside: {last[:300]}"
        )
    for name, content in back.items():
        await env.write_file(name, content)


async def _unsound_roots(env: Environment, before: Box) -> list[str]:
    """Shells and hash programs, read through the provider and compared by ourselves: a shell
    that lies would lie about itself."""
    unsound = []
    for name, package in ROOTS.items():
        if (tool := before.tools.get(name)) is None:
            continue
        try:
            content = await env.read_file(tool.real, max_bytes=_PROGRAM_MAX_BYTES)
            sound = hashlib.sha256(content).hexdigest() == tool.sha256
            if not sound:  # an upgrade of the whole system may have brought another
                sums = await env.read_file(f"/var/lib/dpkg/info/{package}.md5sums")
                line = hashlib.md5(content, usedforsecurity=False).hexdigest().encode()
                sound = content.startswith(b"\x7fELF") and line in sums
        except (OSError, ValueError):
            sound = False
        if not sound:
            unsound.append(tool.path)
    return unsound


def _new_standing(before: Box, now: Box) -> list[str]:
    return [line for line in now.standing if line not in before.standing]


async def _harmless(env: Environment, path: str, instruction: str, user: str | None) -> bool:
    """The task itself speaks of that file, or it is a list of folders as installers make it."""
    name = PurePosixPath(path).name
    if name in instruction:
        return True
    if PurePosixPath(path).parent == PurePosixPath(env.workdir) and name.endswith(".py"):
        # Seen from there, it hides a module of the same name from the tests.
        return name.removesuffix(".py") not in HIDING
    if not name.endswith(".pth"):
        return False
    if _INSTALLERS.fullmatch(name):
        return True
    runs = await env.exec(["grep", "-qs", "^import[ \t]", path], cwd="/", user=user)
    return runs.exit_code == 1


async def _differs(env: Environment, tool: Tool, user: str | None) -> bool:
    said = await env.exec(["sha256sum", "--", tool.path], cwd="/", user=user)
    return not said.stdout.lstrip("\\").startswith(tool.sha256)


_OWNED = r"""
sum=$(md5sum < "$1" | cut -c 1-32)
grep -hs "^$sum  .*$2\$" /var/lib/dpkg/info/*.md5sums > /dev/null && echo owned
head -c 4096 < "$1"
"""


async def _legitimate(env: Environment, tool: Tool, user: str | None) -> bool:
    """A package of the system brought it in this very form, or pip wrote it for its package."""
    name = re.escape(PurePosixPath(tool.real).name)
    looked = await env.exec(["/bin/sh", "-c", _OWNED, "sh", tool.real, name], cwd="/", user=user)
    if looked.stdout.startswith("owned\n"):
        return True
    if looked.stdout.startswith("#!") and "python" in looked.stdout.split("\n", 1)[0]:
        return _ENTRY_POINT.search(looked.stdout.encode()) is not None
    # uv and uvx come as programs of their own.
    return looked.stdout.startswith("\x7fELF") and PurePosixPath(tool.path).name in ("uv", "uvx")
