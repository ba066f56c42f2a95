"""Names and tags of our sandboxes at Modal, and who owns one.

Modal takes letters, digits, `.`, `_` and `-`, at most 63 of them. A name is unique among the
running sandboxes of an app, which is what makes a repeated creation safe.
"""

import hashlib
import os
import re
import secrets
import socket
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import psutil

from agentcompass.components.contracts.sandbox import Leftover, SandboxLabel

MARK = "agentcompass"
"""The tag that every sandbox of ours bears."""
_ILLEGAL = re.compile(r"[^A-Za-z0-9._-]")
_MOST = 63
_MOST_PARTS = 8


def new_name(label: SandboxLabel) -> str:
    """The ends of ids are what differs, and chance makes it new: 63 characters at the most."""
    parts = (label.run_id[-16:], label.attempt.task_id[-16:])
    readable = "-".join(_ILLEGAL.sub("-", part) for part in parts)
    return f"{MARK}-{readable}-{secrets.token_hex(8)}"


def tags(label: SandboxLabel, lifetime_seconds: int) -> dict[str, str]:
    now = time.time()
    return {
        MARK: "1",
        "run": _plain(label.run_id),
        "task": _plain(label.attempt.task_id),
        **_exact(label.attempt.task_id),
        "attempt": f"{label.attempt.index}.{label.attempt.physical}",
        "purpose": _plain(label.purpose),
        "machine": _machine(),
        "host": _plain(socket.gethostname()),
        "owner": _owner(os.getpid()),
        "created": str(int(now)),
        "until": str(int(now) + lifetime_seconds),
        "kept": "yes" if label.keep else "no",
    }


def leftover(sandbox_id: str, found: Mapping[str, str]) -> Leftover | None:
    """None: its owner lives, or is on another machine."""
    if found.get("machine") != _machine():
        return None
    kept = found.get("kept") == "yes"
    if not kept and _lives(found.get("owner", "")):
        return None
    created = found.get("created", "")
    return Leftover(
        id=sandbox_id,
        run_id=found.get("run", ""),
        task_id=_task_id(found),
        purpose=found.get("purpose", ""),
        created_at=datetime.fromtimestamp(int(created), UTC) if created.isdigit() else None,
        kept=kept,
        owner=f"process {found.get('owner', '?').partition('.')[0]} on {found.get('host', '?')}",
    )


def mine() -> dict[str, str]:
    """Tags that all sandboxes opened on this machine by this user have."""
    return {MARK: "1", "machine": _machine()}


def _plain(text: str) -> str:
    """As a tag's value. Where that loses something, a digest keeps different texts apart."""
    plain = _ILLEGAL.sub("-", text)
    if plain == text and 0 < len(text) <= _MOST:
        return text
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"{plain[: _MOST - 9]}.{digest}"


def _exact(task_id: str) -> dict[str, str]:
    """More tags, for an id that no single one can hold as it is."""
    if _plain(task_id) == task_id:
        return {}
    encoded = urlsafe_b64encode(task_id.encode("utf-8", "surrogatepass")).decode().rstrip("=")
    parts = [encoded[start : start + _MOST] for start in range(0, len(encoded), _MOST)]
    if len(parts) > _MOST_PARTS:
        return {}
    return {f"task-{number}": part for number, part in enumerate(parts)}


def _task_id(found: Mapping[str, str]) -> str:
    parts = [found.get(f"task-{number}", "") for number in range(_MOST_PARTS)]
    encoded = "".join(parts)
    if not encoded:
        return found.get("task", "")
    try:
        data = urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4))
        return data.decode("utf-8", "surrogatepass")
    except ValueError:  # a tag was changed by hand
        return found.get("task", "")


def _owner(pid: int) -> str:
    """A process and when it started: its number alone will be another's one day."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(errors="replace")
        boot = Path("/proc/sys/kernel/random/boot_id").read_text()[:8]
        return f"{pid}.{stat.rpartition(')')[2].split()[19]}.{boot}"
    except OSError:  # no /proc: its clock may be corrected, hence whole minutes
        return f"{pid}.{int(psutil.Process(pid).create_time() / 60)}"


def _lives(owner: str) -> bool:
    pid = owner.partition(".")[0]
    try:
        return pid.isdigit() and _owner(int(pid)) == owner
    except psutil.Error:
        return False


def _machine() -> str:
    """This machine (or container) and user: only there a process number means something."""
    parts = [socket.gethostname(), str(os.getuid())]
    with suppress(OSError):
        parts.append(Path("/etc/machine-id").read_text().strip())
    with suppress(OSError):
        parts.append(str(Path("/proc/self/ns/pid").readlink()))
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]
