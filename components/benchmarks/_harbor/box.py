"""What a sandbox looked like before the agent came, and what of it a grader must not trust now.

Recorded at preparation and compared before grading: the programs that graders start, files that
change how Python, pytest, pip, uv, curl or the dynamic linker behave, the processes, and what
stands where tests and rewards will be. A root agent in the grader's own sandbox can always do
more than can be checked; [verifier] environment_mode = "separate" is the way without that doubt.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from agentcompass.components.contracts.errors import AgentCompassError, Code
from agentcompass.components.contracts.sandbox import Environment, ExecResult

SHELLS = ("sh", "bash", "env")
HASHERS = ("sha256sum", "md5sum")
DOWNLOADERS = ("curl", "wget", "uv", "uvx", "pytest", "py.test")
"""Graders bring these themselves; a new one that no package owns is set aside."""
TOOLS = (
    *SHELLS,
    *HASHERS,
    *DOWNLOADERS,
    *("apt", "apt-get", "apk", "dpkg", "pip", "pip3", "python", "python3", "git", "node"),
    *("awk", "basename", "cat", "chmod", "cmp", "cp", "cut", "date", "diff", "dirname", "echo"),
    *("expr", "false", "find", "grep", "head", "id", "ls", "mkdir", "mktemp", "mv", "printf"),
    *("readlink", "rm", "sed", "sleep", "sort", "stat", "tail", "tar", "test", "timeout", "tr"),
    *("true", "uniq", "wc", "xargs"),
)
LOGS = "/logs/verifier"
TESTS = "/tests"
OUTPUT_LIMIT_KB = 8 * 1024


@dataclass(frozen=True)
class Tool:
    path: str
    """Where PATH finds it."""
    real: str
    """Links resolved."""
    sha256: str


@dataclass(frozen=True)
class Box:
    uid: int
    home: str
    path: str
    variables: frozenset[str]
    """Names of those that FIXED wants and that are set already."""
    tools: dict[str, Tool]
    files: dict[str, str]
    """Start-up and settings files that stand there → sha256, or `link`."""
    standing: tuple[str, ...]
    """What is in the way of tests and rewards."""
    processes: frozenset[tuple[int, int]] = field(default_factory=frozenset)
    """(pid, start time) of each."""


FIXED = {
    "TZ": "UTC",
    "LANG": "C.UTF-8",
    "LC_ALL": "C.UTF-8",
    "PYTHONHASHSEED": "0",
}
"""A grader's own time zone, locale and hash seed, unless image, task or user set them."""

_WHO = """
printf 'uid=%s\\nhome=%s\\npath=%s\\n' "$(id -u)" "${HOME:-/root}" "$PATH"
printf 'TZ=%s\\nLANG=%s\\nLC_ALL=%s\\n' "${TZ:-}" "${LANG:-}" "${LC_ALL:-}"
printf 'PYTHONHASHSEED=%s\\n' "${PYTHONHASHSEED:-}"
"""
_RECORD = r"""
workdir=$1; tools=$2; home=$3; folders=$4; LC_ALL=C; export LC_ALL
set --
IFS=:
for name in $tools; do
    for folder in $folders; do
        if [ -f "$folder/$name" ] && [ -x "$folder/$name" ]; then
            printf 'tool\t%s\t%s\n' "$name" "$folder/$name"
            set -- "$@" "$folder/$name"
            break
        fi
    done
done
unset IFS
if [ $# -gt 0 ]; then
    readlink -f -- "$@" | sed 's/^/real	/'
    sha256sum -- "$@" | sed 's/^/sum	/'
fi
listed() {
    find "$@" -type f -exec sha256sum -- {} + 2>/dev/null | sed 's/^/file	/'
    find "$@" -type l -print 2>/dev/null | sed 's/^/link	/'
}
for path in /etc/ld.so.preload /etc/pip.conf /etc/uv/uv.toml "$home/.curlrc" "$home/.wgetrc" \
    "$home/.pip/pip.conf" "$home/.config/pip/pip.conf" "$home/.config/uv/uv.toml" \
    "$home/.local/bin/env" "$home/.local/bin/uv" "$home/.local/bin/uvx" /conftest.py \
    /pytest.ini /.pytest.ini /tox.ini /setup.cfg /setup.py /pyproject.toml
do
    if [ -e "$path" ] || [ -L "$path" ]; then listed "$path" -maxdepth 0; fi
done
listed /usr/lib /usr/local/lib /opt /etc "$home/.local/lib" -maxdepth 6 \
    \( -name sitecustomize.py -o -name usercustomize.py -o -name '*.pth' \)
if [ "$workdir" != / ]; then
    listed "$workdir" -maxdepth 6 \
        \( -name node_modules -o -name .git -o -name site-packages -o -name dist-packages \) \
        -prune -o \( -name conftest.py -o -name pytest.ini -o -name .pytest.ini -o -name tox.ini \
        -o -name pytest.py -o -path '*/pytest/__init__.py' -o -path '*/_pytest/__init__.py' \
        -o -name sitecustomize.py -o -name usercustomize.py \)
    listed "$workdir" -maxdepth 1 -name '*.py'
fi
for path in /logs /logs/verifier /tests; do
    if [ -L "$path" ]; then printf 'standing\t%s (a link)\n' "$path"
    elif [ -e "$path" ] && [ ! -d "$path" ]; then printf 'standing\t%s (not a folder)\n' "$path"
    fi
done
for path in /logs/verifier /tests; do
    if [ -d "$path" ] && [ ! -L "$path" ]; then
        find "$path" -mindepth 1 -maxdepth 1 2>/dev/null | head -n 20 | sed 's/^/standing	/'
    fi
done
for folder in /proc/[0-9]*; do
    stat=$(tr '\n\t' '  ' < "$folder/stat" 2>/dev/null) || continue
    [ -z "$stat" ] || printf 'process\t%s\n' "$stat"
done
exit 0
"""


async def record(env: Environment, user: str | None, root: str | None) -> Box:
    """As `user`, the grader, will see it. Raises environment.setup."""
    who = await env.exec(["/bin/sh", "-c", _WHO], cwd="/", user=user)
    rows = dict(line.partition("=")[::2] for line in who.stdout.splitlines())
    if not who.ok or not rows.get("uid", "").isdigit():
        raise _failed(who)
    home, path = rows.get("home") or "/", rows.get("path", "")
    result = await env.exec(
        ["/bin/sh", "-c", _RECORD, "sh", env.workdir, ":".join(TOOLS), home, path],
        cwd="/",
        user=root,
        output_limit_kb=OUTPUT_LIMIT_KB,
    )
    if not result.ok or result.stdout_dropped_bytes:
        raise _failed(result)
    variables = frozenset(name for name in FIXED if rows.get(name))
    return _box(result.stdout, int(rows["uid"]), home, path, variables)


def with_changes(box: Box, before: Box, after: Box, brought: frozenset[str] | None) -> Box:
    """The box and what the task itself changed between two later looks at it.

    `brought`: the files it put there and nothing else happened; None: it ran something.
    """
    same = all(before.tools.get(name) == box.tools.get(name) for name in (*SHELLS, *HASHERS))
    if not same:
        return box  # the agent changed what these looks stand on
    if brought is not None:
        files = {path: sha for path, sha in after.files.items() if path in brought}
        return replace(box, files={**box.files, **files})
    tools = {n: tool for n, tool in after.tools.items() if tool != before.tools.get(n)}
    files = {path: sha for path, sha in after.files.items() if sha != before.files.get(path)}
    return replace(
        box,
        tools={**box.tools, **tools},
        files={**box.files, **files},
        standing=(*box.standing, *(line for line in after.standing if line not in before.standing)),
        processes=box.processes | (after.processes - before.processes),
    )


def _failed(result: ExecResult) -> AgentCompassError:
    last = (result.stderr.strip() or "no output").splitlines()[-1]
    return AgentCompassError(
        Code.ENVIRONMENT_SETUP, f"looking over the sandbox failed: {last[:300]}"
    )


def _box(text: str, uid: int, home: str, path: str, variables: frozenset[str]) -> Box:
    rows: dict[str, list[str]] = {}
    for line in text.split("\n"):
        kind, _, rest = line.partition("\t")
        rows.setdefault(kind, []).append(rest)
    names = [row.split("\t") for row in rows.get("tool", [])]
    sums = dict(_sums(rows.get("sum", [])))
    tools = {
        name: Tool(where, real, sums.get(where, ""))
        for (name, where), real in zip(names, rows.get("real", []), strict=False)
    }
    files = dict(_sums(rows.get("file", []))) | dict.fromkeys(rows.get("link", []), "link")
    return Box(
        uid=uid,
        home=home,
        path=path,
        variables=variables,
        tools=tools,
        files=files,
        standing=tuple(rows.get("standing", [])),
        processes=frozenset(started(row) for row in rows.get("process", [])),
    )


def _sums(rows: list[str]) -> Iterator[tuple[str, str]]:
    for row in rows:
        if found := re.fullmatch(r"\\?([0-9a-f]{64}) [ *](.+)", row):
            yield found[2], found[1]


def started(stat: str) -> tuple[int, int]:
    """(pid, start time) of a line of /proc/<pid>/stat; (0, 0) if it is none."""
    try:
        return int(stat.split(" ", 1)[0]), int(stat.rpartition(")")[2].split()[19])
    except (LookupError, ValueError):
        return 0, 0
