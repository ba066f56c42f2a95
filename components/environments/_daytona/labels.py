"""The labels by which Daytona sandboxes are known to be ours, and whose: for cleaning up."""

import hashlib
import os
import re
import secrets
import socket
import time
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

import psutil

from agentcompass.components.contracts.sandbox import Leftover, SandboxLabel

OURS: Mapping[str, str] = {"agentcompass": "sandbox"}
_LONGEST = 250


def new_name(label: SandboxLabel) -> str:
    """Unique, legal and readable; creating by it is safe to repeat."""
    run, task = _short(label.run_id), _short(label.attempt.task_id)
    return f"agentcompass-{run}-{task}-{secrets.token_hex(5)}"


def labels(label: SandboxLabel, lifetime_seconds: float) -> dict[str, str]:
    attempt = label.attempt
    return {
        **OURS,
        "agentcompass.run": label.run_id[:_LONGEST],
        "agentcompass.task": attempt.task_id[:_LONGEST],
        "agentcompass.attempt": f"{attempt.index}.{attempt.physical}",
        "agentcompass.purpose": label.purpose,
        "agentcompass.owner": _owner(),
        "agentcompass.expires": str(int(time.time() + lifetime_seconds)),
        "agentcompass.kept": "true" if label.keep else "false",
    }


def leftover(sandbox_id: str, labels: Mapping[str, str], created_at: str | None) -> Leftover | None:
    """None while somebody may still use it."""
    kept = labels.get("agentcompass.kept") == "true"
    owner = labels.get("agentcompass.owner", "")
    if not (kept or _dead(owner) or _expired(labels)):
        return None
    host, _, rest = owner.partition("/")
    return Leftover(
        id=sandbox_id,
        run_id=labels.get("agentcompass.run", ""),
        task_id=labels.get("agentcompass.task", ""),
        purpose=labels.get("agentcompass.purpose", "run"),
        created_at=_moment(created_at),
        kept=kept,
        owner=f"process {rest.partition('/')[0]} of {host}",
    )


def _owner() -> str:
    """This machine and user, process, and when that started (a pid is used again)."""
    started = int(psutil.Process().create_time())
    return f"{_host()}/{os.getpid()}/{started}"


def _host() -> str:
    try:
        machine = Path("/etc/machine-id").read_text(encoding="utf-8").strip()
    except OSError:
        machine = ""
    name = socket.gethostname()
    seed = f"{machine}/{name}/{os.getuid()}".encode()
    return f"{_short(name)}-{hashlib.sha256(seed).hexdigest()[:12]}"


def _dead(owner: str) -> bool:
    """Of another machine we cannot tell."""
    host, _, rest = owner.partition("/")
    pid, _, started = rest.partition("/")
    if host != _host() or not pid.isdigit() or not started.isdigit():
        return False
    try:
        return abs(psutil.Process(int(pid)).create_time() - int(started)) > 2
    except psutil.NoSuchProcess:
        return True
    except psutil.AccessDenied:
        return False


def _expired(labels: Mapping[str, str]) -> bool:
    expires = labels.get("agentcompass.expires", "")
    return expires.isdigit() and time.time() > int(expires)


def _moment(text: str | None) -> datetime | None:
    try:
        return datetime.fromisoformat((text or "").replace("Z", "+00:00"))
    except ValueError:
        return None


def _short(identifier: str) -> str:
    """At most 16 characters that are legal in a name; the end of an id is what differs."""
    return re.sub(r"[^A-Za-z0-9]+", "-", identifier)[-16:].strip("-").lower() or "x"
