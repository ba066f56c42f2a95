"""One process at a time works in a run's folder. The lease dies with the process that holds it."""

import fcntl
import json
import os
import socket
from datetime import UTC, datetime
from pathlib import Path
from typing import TextIO

from agentcompass.components.contracts.errors import RequestError


class RunLease:
    """An advisory lock on `lease.json`, which also tells who holds it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: TextIO | None = None

    def take(self) -> None:
        """RequestError, which names the holder, if another process works in the run."""
        file = self._path.open("a+", encoding="utf-8")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.close()
            raise RequestError(
                "run", f"it is being worked on by {_told(self._path)}", "wait for it, or cancel it"
            ) from None
        file.truncate(0)
        started = datetime.now(UTC).isoformat(timespec="seconds")
        who = {"pid": os.getpid(), "host": socket.gethostname(), "since": started}
        json.dump({"schema_version": 1, **who}, file)
        file.flush()
        self._file = file

    def release(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


def holder(path: Path) -> str | None:
    """Who works in the run now; None: nobody."""
    try:
        with path.open("r", encoding="utf-8") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except OSError:
                return _told(path)
    except OSError:
        return None
    return None


def _told(path: Path) -> str:
    try:
        known = json.loads(path.read_text(encoding="utf-8"))
        return f"process {known['pid']} on {known['host']} since {known['since']}"
    except (OSError, ValueError, KeyError, TypeError):
        return "another process"
