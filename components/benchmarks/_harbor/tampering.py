"""What an agent planted in the sandbox it is graded in: found, put out of the way, and named.

found                                             done
a link or file where tests and rewards will be    removed (see verifier.py)
a program that hides one of the grader's          the original is used: first in the grader's PATH
a new downloader or pytest that no package owns   set aside
a start-up or settings file, new or changed       set aside; if it was there before, put back
a program that graders start, removed             its absence is the agent's doing, not a failure
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
_FIRST = {"conftest", "pytest", "sitecustomize", "usercustomize"}
"""What Python and pytest look for by themselves."""
_NOT_AT_START = re.compile(
    "aifc|antigravity|asynchat|asyncore|audioop|cgi|cgitb|chunk|cmath|colorsys|crypt|curses|dbm|"
    "filecmp|fileinput|fractions|ftplib|getopt|graphlib|idlelib|imaplib|imghdr|lib2to3|mailbox|"
    "mailcap|modulefinder|netrc|nis|nntplib|optparse|ossaudiodev|pipes|plistlib|poplib|profile|"
    "pstats|pyclbr|pydoc|sched|shelve|smtpd|smtplib|sndhdr|spwd|sqlite3|statistics|stringprep|"
    "sunau|symtable|tabnanny|telnetlib|this|timeit|tkinter|turtle|turtledemo|uu|venv|wave|"
    "webbrowser|wsgiref|xdrlib|xmlrpc|zipapp"
)
"""Of the standard library what neither Python nor pytest imports before the tests: a file of that
name runs when a test asks for it, and an agent may well call its own so."""
_STARTED_WITH = {name for name in sys.stdlib_module_names if not _NOT_AT_START.fullmatch(name)}
_LOOKS_INTO_WORKDIR = re.compile(
    r"""(?:^|["',\s])-[A-Za-z]{0,4}[mc](?=["',\s])|python[\d.]*["', \t]+(?:-(?=["',\s])|<)"""
    r"|\|\s*(?:sudo\s+)?python|pythonpath|sys\.path"
    r"|\b(?:cp|mv|ln|rsync)\s[^\n]*(?:/tests|\.py)|shutil\.|>\s*\S*\.py\b",
    re.IGNORECASE | re.MULTILINE,
)
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
    gone: dict[str, str] = field(default_factory=dict)
    """Programs that graders start and that are no longer there → where they were."""
    path: str | None = None
    """PATH for the grader, if it must differ."""
    aside: dict[str, str] = field(default_factory=dict)
    """Where what was set aside lies → where it stood."""

    def of_the_work(self, workdir: str) -> list[str]:
        """What was set aside and may have been meant for the task, not for the grader."""
        return [path for path in self.aside.values() if path.startswith(workdir.rstrip("/") + "/")]


@dataclass(frozen=True)
class Named:
    """What the task's own words say about files."""

    told: str
    """What the agent is asked for: a file named here is no trap."""
    tests: str
    """Every text of the tests."""


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
    named: Named,
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
    found.gone = {n: tool.path for n, tool in before.tools.items() if n not in now.tools}
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
        if digest == before.files.get(path) or await _harmless(env, path, named, user, root):
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


async def _harmless(
    env: Environment, path: str, named: Named, user: str | None, root: str | None
) -> bool:
    """The task itself speaks of that file, or it decides nothing where it stands."""
    name = PurePosixPath(path).name
    if name in named.told:
        return True
    if name == "tox.ini":
        return not await _has(env, r"^\[pytest\]", path, root)
    if PurePosixPath(path).parent == PurePosixPath(env.workdir) and name.endswith(".py"):
        module = name.removesuffix(".py")
        if module in _FIRST:
            return False
        # Seen from there, it may hide a module of the same name from the grader.
        if module not in _STARTED_WITH:
            return True
        by_variable = await env.exec(["printenv", "PYTHONPATH"], cwd="/", user=user)
        return not by_variable.ok and not looks_into_workdir(named.tests)
    if not name.endswith(".pth"):
        return False
    return bool(_INSTALLERS.fullmatch(name)) or not await _has(env, "^import[ \t]", path, root)


def looks_into_workdir(tests: str) -> bool:
    """Python may look for modules in the workdir when these tests run, as far as they tell.

    It looks in the folder it starts in with -m, -c and for code from a pipe, and beside the file
    it runs; `pytest` and `python FILE` do not look into the folder they start in.
    """
    return not tests or _LOOKS_INTO_WORKDIR.search(tests) is not None


async def _has(env: Environment, pattern: str, path: str, user: str | None) -> bool:
    """Also if the file cannot be read."""
    found = await env.exec(["grep", "-qs", pattern, path], cwd="/", user=user)
    return found.exit_code != 1


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
