"""Workspaces whose keeper is dead: the machine went down, or someone killed all of it at once;
and those kept on purpose."""

import fcntl
import json
import os
from datetime import UTC, datetime
from pathlib import Path

from agentcompass.components.contracts.sandbox import Leftover
from agentcompass.components.environments._host.ending import kill_marked, remove_tree
from agentcompass.components.environments._host.keeper import OWNER_FILE

KEPT = "-kept"
"""How the root of a sandbox ends that stays for debugging."""


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
                created_at = datetime.fromtimestamp(os.fstat(record.fileno()).st_mtime, UTC)
            found.append(
                Leftover(
                    id=str(root),
                    run_id=owner["run_id"],
                    task_id=owner["task_id"],
                    purpose=owner["purpose"],
                    created_at=created_at,
                    kept=root.name.endswith(KEPT),
                    owner=f"process {owner['pid']} on {owner.get('host', 'this machine')}",
                )
            )
        except (OSError, ValueError, LookupError, TypeError):
            continue  # alive (locked), gone meanwhile, or none of ours
    return tuple(found)


def remove_leftover(leftover: Leftover) -> bool:
    """Kill what still runs of it and remove its files; True when nothing is left."""
    if not Path(leftover.id).exists():
        return True
    kill_marked(leftover.id)
    return remove_tree(os.fsencode(leftover.id))
