"""The same work, wanted by many at once, done by one: in this process and on this machine."""

import asyncio
import hashlib
import logging
import os
import stat
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Generic, TypeVar

from agentcompass.components.contracts.errors import AgentCompassError

_log = logging.getLogger(__name__)
_POLL_SECONDS = 0.1
_ENDING_SECONDS = 5.0
T = TypeVar("T")
Note = Callable[[str], None]


class _Flight(Generic[T]):
    def __init__(self) -> None:
        self.task: asyncio.Task[T] | None = None
        self.notes: list[Note] = []

    def tell(self, line: str) -> None:
        for note in tuple(self.notes):
            note(line)


class Once(Generic[T]):
    """Who asks while the work is under way waits for it and shares its outcome, failures too."""

    def __init__(self) -> None:
        self._flights: dict[tuple[int, str], _Flight[T]] = {}

    async def get(self, key: str, work: Callable[[Note], Awaitable[T]], note: Note) -> T:
        """The work goes on until nobody waits any more; it is cancelled with the last."""
        place = (id(asyncio.get_running_loop()), key)
        flight = self._flights.get(place)
        if flight is None or flight.task is None or flight.task.done():
            flight = self._flights[place] = _Flight()
            flight.task = asyncio.ensure_future(_running(work, flight.tell))
        task = flight.task
        assert task is not None
        flight.notes.append(note)
        try:
            await asyncio.wait({task})
        finally:
            flight.notes.remove(note)
            if not flight.notes and self._flights.get(place) is flight:
                del self._flights[place]
            if not flight.notes and not task.done():
                task.cancel()
                await asyncio.wait({task}, timeout=_ENDING_SECONDS)
        try:
            return task.result()
        except AgentCompassError as error:  # each its own: a traceback grows as it is raised
            raise AgentCompassError(error.code, str(error)) from error


async def _running(work: Callable[[Note], Awaitable[T]], note: Note) -> T:
    return await work(note)


@asynccontextmanager
async def alone(key: str) -> AsyncIterator[None]:
    """One holder of `key` on this machine (and user). A dead holder's lock is free at once.

    Where no lock can be had (no directory for temporary files), goes on without: the work is
    done twice then, not wrongly.
    """
    from filelock import FileLock, Timeout

    lock = None
    try:
        name = hashlib.sha256(key.encode()).hexdigest()[:32]
        lock = FileLock(_directory() / f"{name}.lock")
        while True:
            try:
                lock.acquire(blocking=False)
                break
            except Timeout:
                await asyncio.sleep(_POLL_SECONDS)
    except OSError as error:
        _log.debug("no lock for %s: %s", key, error)
        lock = None
    try:
        yield
    finally:
        if lock is not None:
            lock.release()


def _directory() -> Path:
    """Ours alone: a lock that others may write could be held against us."""
    directory = Path(tempfile.gettempdir(), f"agentcompass-locks-{os.getuid()}")
    directory.mkdir(mode=0o700, exist_ok=True)
    found = directory.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        raise OSError(f"{directory} is not ours")
    return directory
