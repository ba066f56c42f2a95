"""One process at a time works in a run's folder. The lease dies with the process that holds it."""

import fcntl
import json
import os
import socket
import time
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import TextIO

from agentcompass.components.contracts.errors import RequestError
from agentcompass.components.results.writing import unwritable

PATIENCE_SECONDS = 1.0


class RunLease:
    """An advisory lock on `lease.json`, which also tells who holds it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: TextIO | None = None

    def take(self) -> None:
        """Blocks for a second at most. RequestError, which names the holder, if another process
        works in the run; AgentCompassError(results.write) if this place cannot be locked."""
        try:
            with ExitStack() as opened:
                file = opened.enter_context(self._path.open("a+", encoding="utf-8"))
                if not _locked(file):
                    raise RequestError(
                        "run",
                        f"it is being worked on by {_told(self._path)}",
                        "wait for it, or cancel it",
                    )
                file.truncate(0)
                started = datetime.now(UTC).isoformat(timespec="seconds")
                who = {"pid": os.getpid(), "host": socket.gethostname(), "since": started}
                json.dump({"schema_version": 1, **who}, file)
                file.flush()
                opened.pop_all()
        except OSError as error:
            raise unwritable(self._path, error) from error
        self._file = file

    def release(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


def holder(path: Path) -> str | None:
    """Who works in the run now; None: nobody, or this place knows no locks, so nobody can."""
    try:
        with path.open("r", encoding="utf-8") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return _told(path)
    except OSError:
        return None
    return None


def _locked(file: TextIO) -> bool:
    """Tries for a while: who asks for the holder has a lock for a moment, too."""
    until = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if time.monotonic() >= until:
                return False
        time.sleep(0.02)


def _told(path: Path) -> str:
    try:
        known = json.loads(path.read_text(encoding="utf-8"))
        return f"process {known['pid']} on {known['host']} since {known['since']}"
    except (OSError, ValueError, KeyError, TypeError):
        return "another process"
