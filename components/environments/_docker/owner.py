"""Whose container it is: labels, the living and the dead among their owners, what they left."""

import json
import os
import platform
import re
import secrets
from collections.abc import Mapping
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

import psutil

from agentcompass.components.contracts.sandbox import Leftover, SandboxLabel

PREFIX = "agentcompass."
OWNER = f"{PREFIX}owner"
_SAME_SECONDS = 2.0
"""By how much the start of one process may seem to differ when it is asked for again."""


def labels(label: SandboxLabel) -> dict[str, str]:
    """On everything an engine makes for a sandbox."""
    return {
        f"{PREFIX}run": label.run_id,
        f"{PREFIX}task": label.attempt.task_id,
        f"{PREFIX}attempt": str(label.attempt.index),
        f"{PREFIX}physical": str(label.attempt.physical),
        f"{PREFIX}purpose": label.purpose,
        f"{PREFIX}kept": str(label.keep).lower(),
        OWNER: json.dumps(_owner()),
    }


def new_name(label: SandboxLabel) -> str:
    """Unique, and to be recognised by people: run, task, attempt."""
    attempt = label.attempt
    words = (_short(label.run_id), _short(attempt.task_id), f"{attempt.index}.{attempt.physical}")
    return f"agentcompass-{'-'.join(words)}-{label.purpose}-{secrets.token_hex(4)}"


def leftover(container: Mapping[str, Any]) -> Leftover | None:
    """Of what the engine lists; None: its owner lives, or is none of this machine and user."""
    marks: Mapping[str, str] = container.get("Labels") or {}
    try:
        owner = json.loads(marks[OWNER])
        kept = marks.get(f"{PREFIX}kept") == "true"
        if not _ours(owner) or (not kept and not _dead(owner)):
            return None
        return Leftover(
            id=container["Id"],
            run_id=marks[f"{PREFIX}run"],
            task_id=marks[f"{PREFIX}task"],
            purpose=marks[f"{PREFIX}purpose"],
            created_at=datetime.fromtimestamp(container["Created"]).astimezone(),
            kept=kept,
            owner=f"process {owner['pid']} on {owner['machine']}",
        )
    except (LookupError, ValueError, TypeError):
        return None  # labels somebody else wrote


@cache
def _here() -> dict[str, Any]:
    return {
        "machine": platform.node(),
        "machine_id": _text("/etc/machine-id"),
        "pid_namespace": _link("/proc/self/ns/pid"),
        "user": getattr(os, "getuid", lambda: -1)(),
    }


def _owner() -> dict[str, Any]:
    pid = os.getpid()
    return {
        **_here(),
        "boot": _text("/proc/sys/kernel/random/boot_id"),
        "pid": pid,
        "started": psutil.Process(pid).create_time(),
    }


def _ours(owner: Mapping[str, Any]) -> bool:
    """Asked on one machine, by one user, where process numbers mean the same."""
    return all(owner[name] == value for name, value in _here().items())


def _dead(owner: Mapping[str, Any]) -> bool:
    if owner["boot"] != _text("/proc/sys/kernel/random/boot_id"):
        return True
    try:
        process = psutil.Process(int(owner["pid"]))
        started = process.create_time()
        if process.status() == psutil.STATUS_ZOMBIE:
            return True
    except psutil.NoSuchProcess:
        return True
    except psutil.AccessDenied:
        return False
    return abs(started - float(owner["started"])) > _SAME_SECONDS


def _text(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8").strip()
    except OSError:
        return ""  # not on this kind of machine


def _link(path: str) -> str:
    try:
        return str(Path(path).readlink())
    except OSError:
        return ""


def _short(identifier: str) -> str:
    """At most 24 characters of those a container's name may have; ids differ at their end."""
    return re.sub(r"[^A-Za-z0-9_.]+", "-", identifier)[-24:].strip("-.") or "x"
