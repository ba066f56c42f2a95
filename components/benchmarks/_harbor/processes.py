"""Processes an agent left running: which live on while its work is graded, and the end of them.

Tasks may ask for a service ("serve the packages on port 8080"), so what listens on a socket may
go on, with the processes above and below it. Everything else that came after the preparation is
ended before the tests arrive; after the tests, all of it is, before the reward is read.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

from agentcompass.components.benchmarks._harbor.box import OUTPUT_LIMIT_KB, Box, started
from agentcompass.components.contracts.errors import AgentCompassError, Code
from agentcompass.components.contracts.sandbox import Environment

LeftRunning = Literal["services", "nothing", "everything"]
ROUNDS = 4
"""What forks while it is ended is found again."""

_LIST = r"""
printf 'me\t%s\n' $$
for folder in /proc/[0-9]*; do
    stat=$(tr '\n\t' '  ' < "$folder/stat" 2>/dev/null) || continue
    [ -n "$stat" ] || continue
    printf 'process\t%s\n' "$stat"
    printf 'program\t%s\t%s\n' "${folder#/proc/}" "$(readlink "$folder/exe" 2>/dev/null)"
    ls -l "$folder/fd" 2>/dev/null |
        sed -n "s/.*socket:\[\([0-9]*\)\].*/socket	${folder#/proc/}	\1/p"
done
for name in tcp tcp6 udp udp6 unix; do
    [ ! -r /proc/net/$name ] || sed "s/^ */$name	/" /proc/net/$name
done
exit 0
"""
_END = 'kill -KILL "$@" 2>/dev/null; exit 0'


@dataclass
class _Process:
    pid: int
    parent: int
    start: int
    name: str
    state: str
    program: str = ""
    sockets: set[str] = field(default_factory=set)


async def end_left_running(
    env: Environment, before: Box, keep: LeftRunning, user: str | None
) -> tuple[list[str], list[str]]:
    """End what `keep` does not spare; names of what was ended, and of what lives on.

    Raises grader.crashed if something cannot be ended.
    """
    if keep == "everything":
        return [], []
    ended: dict[int, str] = {}
    for _ in range(ROUNDS):
        listed = await env.exec(
            ["/bin/sh", "-c", _LIST], cwd="/", user=user, output_limit_kb=OUTPUT_LIMIT_KB
        )
        if not listed.ok:
            raise AgentCompassError(Code.GRADER_CRASHED, "the sandbox's processes cannot be listed")
        left, listening = _left(listed.stdout, before)
        spared = _spared(left, listening, before) if keep == "services" else set()
        doomed = [process for process in left.values() if process.pid not in spared]
        if not doomed:
            names = sorted(left[pid].name for pid in spared if left[pid].name != "cat")
            return sorted(ended.values()), names
        ended |= {process.pid: process.name for process in doomed}
        pids = [str(process.pid) for process in doomed]
        await env.exec(["/bin/sh", "-c", _END, "sh", *pids], cwd="/", user=user)
    raise AgentCompassError(
        Code.GRADER_CRASHED,
        f"{len(doomed)} processes of the agent cannot be ended: {doomed[0].name}",
    )


def _left(text: str, before: Box) -> tuple[dict[int, _Process], set[str]]:
    """Processes that came since, without this listing's own, and inodes of listening sockets."""
    rows = [line.split("\t") for line in text.split("\n")]
    me = next((int(row[1]) for row in rows if row[0] == "me"), 0)
    found: dict[int, _Process] = {}
    for row in rows:
        if row[0] != "process" or started(row[1]) == (0, 0):
            continue
        pid, start = started(row[1])
        name = row[1].partition("(")[2].rpartition(")")[0]
        state, parent = row[1].rpartition(")")[2].split()[:2]
        found[pid] = _Process(pid, int(parent), start, name, state)
    for row in rows:
        if row[0] == "socket" and int(row[1]) in found:
            found[int(row[1])].sockets.add(row[2])
        elif row[0] == "program" and int(row[1]) in found:
            found[int(row[1])].program = row[2]
    own = _command_of(me, found, before)
    left = {
        process.pid: process
        for process in found.values()
        if (process.pid, process.start) not in before.processes
        and process.pid not in own
        and process.state not in ("Z", "X")
    }
    return left, set(_listening(rows))


def _command_of(me: int, found: dict[int, _Process], before: Box) -> set[int]:
    """All processes of the command that lists them: a provider may start several for each."""
    top = me
    while (parent := found.get(found[top].parent) if top in found else None) is not None:
        if parent.pid == 1 or (parent.pid, parent.start) in before.processes:
            break
        top = parent.pid
    return _below({top}, found)


def _listening(rows: Iterable[list[str]]) -> Iterable[str]:
    """Inodes, from the columns of /proc/net/*."""
    for row in rows:
        columns = row[-1].split()
        match row[0]:
            case "tcp" | "tcp6" if len(columns) > 9 and columns[3] == "0A":
                yield columns[9]
            case "udp" | "udp6" if len(columns) > 9:
                yield columns[9]
            case "unix" if len(columns) > 6 and columns[3] == "00010000":
                yield columns[6]


def _spared(left: dict[int, _Process], listening: set[str], before: Box) -> set[int]:
    """What listens, with its ancestors and descendants among what is left, and whoever reads
    its output: a provider's `cat`, without which its next word would be its end."""
    listeners = {pid for pid, process in left.items() if process.sockets & listening}
    above = set()
    for pid in listeners:
        parent = left[pid].parent
        while parent in left and parent not in above:
            above.add(parent)
            parent = left[parent].parent
    spared = _below(listeners, left) | above
    cat = before.tools.get("cat")
    if spared and cat is not None and not cat.real.endswith("busybox"):
        spared |= {pid for pid, process in left.items() if process.program == cat.real}
    return spared


def _below(roots: set[int], processes: dict[int, _Process]) -> set[int]:
    """These and all their descendants."""
    found, grown = set(roots), True
    while grown:
        children = {p.pid for p in processes.values() if p.parent in found} - found
        grown = bool(children)
        found |= children
    return found
