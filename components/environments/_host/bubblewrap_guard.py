"""The guard of one isolated `host_process` sandbox: outside it, with what must not be in reach.

It makes the workspace, starts bubblewrap with a keeper as process 1 inside, starts another over
the same files when the network changes, and clears up when all is over or its owner is gone:

  AgentCompass ── guard ── bwrap ══ keeper (process 1) ── shepherd ── command

The guard hands its socket on to the keeper and does not read from it. Every process inside dies
with process 1, by the kernel's hand, and process 1 ends when a pipe that the guard holds open
closes (the signal that is sent at a parent's death is not enough: bwrap, once it gave up root's
rights, may not send it to another user).

A program of its own like `keeper`: standard library only.
"""

import json
import os
import select
import signal
import socket
import time
from typing import Any

from agentcompass.components.environments._host import ending
from agentcompass.components.environments._host.keeper import (
    LIFELINE,
    Signals,
    become_watcher,
    make_root,
    send,
)

AGAIN = {"public": 81, "none": 82}
"""Exit codes of a keeper that makes way for another, with that network."""
_PATIENCE_SECONDS = ending.GRACE_SECONDS + ending.KILL_SECONDS + 1


def main(arguments: list[str]) -> int:
    """ROOT OWNER PLAN. The plan is JSON: `first` (a network), `commands` (by network, the argv of
    bubblewrap), what to make in the root: `folders` of `user` (None: ours), `private` folders that
    stay ours, `files`; their contents."""
    root, owner, plan = arguments[0], arguments[1], json.loads(arguments[2])
    control = become_watcher(b"ac-guard")
    signals = Signals(signal.SIGCHLD)
    lifeline, _held = os.pipe()
    try:
        make_root(root, owner)
        _furnish(root, plan)
        network: str | None = plan["first"]
        while network is not None:
            code = _run(plan["commands"][network], control, signals, lifeline)
            network = next((name for name, number in AGAIN.items() if number == code), None)
    except OSError as error:
        send(control, b"fail", 0, error.errno or 0)
    ending.end_descendants()
    return 0 if ending.remove_tree(os.fsencode(root)) else 1


def _furnish(root: str, plan: dict[str, Any]) -> None:
    for name, content in plan["files"].items():
        with open(f"{root}/{name}", "w") as file:  # noqa: PTH123 (pathlib costs start-up time)
            file.write(content)
    for name in plan["private"]:
        os.mkdir(f"{root}/{name}", 0o755)  # noqa: PTH102
    for name in plan["folders"]:
        os.makedirs(f"{root}/{name}", 0o755, exist_ok=True)  # noqa: PTH103
        if plan["user"] is not None:
            os.chown(f"{root}/{name}", plan["user"], plan["user"])


def _run(argv: list[str], control: socket.socket, signals: Signals, lifeline: int) -> int:
    """The exit code of one bubblewrap; it is killed when the owner is gone and it stays."""
    pid = os.posix_spawn(
        argv[0],
        argv,
        os.environ,
        file_actions=[(os.POSIX_SPAWN_DUP2, lifeline, LIFELINE)],
        setsigdef=[signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT],
        setsigmask=[],
    )
    poll = select.poll()
    poll.register(control, 0)  # only whether the owner hung up
    poll.register(signals.reader, select.POLLIN)
    give_up: float | None = None
    while True:
        for ended, code in ending.reap()[0]:
            if ended == pid:
                return code
        if give_up is not None and time.monotonic() > give_up:
            os.kill(pid, signal.SIGKILL)
        ready = dict(poll.poll(None if give_up is None else 100))
        signals.clear()
        if control.fileno() in ready and give_up is None:
            poll.unregister(control)
            give_up = time.monotonic() + _PATIENCE_SECONDS
