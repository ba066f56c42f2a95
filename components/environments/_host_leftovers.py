"""Workspaces whose keeper is dead: the machine went down, or someone killed all of it at once."""

import fcntl
import json
import os
from pathlib import Path

from agentcompass.components.contracts.frozen import Frozen
from agentcompass.components.environments._host_ending import kill_marked, remove_tree
from agentcompass.components.environments._host_keeper import OWNER_FILE


class Leftover(Frozen):
    """A sandbox that nobody keeps any more."""

    id: str
    """Its root folder."""
    run_id: str
    task_id: str
    purpose: str


def find_leftovers(parent: Path) -> tuple[Leftover, ...]:
    """This user's dead workspaces under `parent`. A living keeper holds a lock on its record."""
    found = []
    for root in sorted(parent.glob("agentcompass-*")):
        try:
            if root.is_symlink() or root.stat().st_uid != os.getuid():
                continue
            with (root / OWNER_FILE).open(encoding="utf-8") as record:
                fcntl.flock(record, fcntl.LOCK_EX | fcntl.LOCK_NB)
                owner = json.load(record)
            found.append(
                Leftover(
                    id=str(root),
                    run_id=owner["run_id"],
                    task_id=owner["task_id"],
                    purpose=owner["purpose"],
                )
            )
        except (OSError, ValueError, LookupError, TypeError):
            continue  # alive (locked), gone meanwhile, or none of ours
    return tuple(found)


def remove_leftover(leftover: Leftover) -> bool:
    """Kill what still runs of it and remove its files; True when nothing is left."""
    kill_marked(leftover.id)
    return remove_tree(os.fsencode(leftover.id))
