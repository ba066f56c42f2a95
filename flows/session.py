"""The starter's side of a run: who listens, and the wish to stop."""

import asyncio
import signal as signals
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from agentcompass.components.contracts.progress import Outcome, Progress
from agentcompass.flows.logs import RunLog

if TYPE_CHECKING:
    from agentcompass.flows.live import LiveRun


@dataclass
class Session:
    listen: Callable[[Progress], None] = lambda progress: None
    note: Callable[[str], None] = lambda line: None
    log: RunLog = field(default_factory=RunLog)
    stop: asyncio.Event = field(default_factory=asyncio.Event)
    """Set: end the attempts, keep what is finished."""
    gate: asyncio.Semaphore | None = None
    """Attempts at once over all runs that share it; None: each run's own task_concurrency only."""
    signal: int | None = None
    """The signal that asked for it."""
    launched_as: str = ""
    """The launch's flow run and the request's number in it; "": it was started alone."""
    launch_retried: bool = False
    attempts_began: bool = False
    """The run has a folder: an end from now on is an orderly one."""
    ended_early: bool = False
    """It was asked to end before it had attempts."""
    outcome: Outcome | None = None
    run: "LiveRun | None" = None

    def request_stop(self, number: int, loop: asyncio.AbstractEventLoop, run: "Cancels") -> None:
        """A signal. Called from any thread; later ones change nothing."""
        if self.signal is not None:
            return
        self.signal = number
        loop.call_soon_threadsafe(self.end, run)

    def end(self, run: "Cancels") -> None:
        """In order, from the event loop. Before the attempts there is nothing to keep: the run
        is cancelled."""
        if self.attempts_began:
            self.stop.set()
        elif not self.ended_early:  # a second one would break into the teardown
            self.ended_early = True
            run.cancel()


Cancels = asyncio.Task[Any]

_session: ContextVar[Session | None] = ContextVar("agentcompass_session", default=None)


def attended() -> bool:
    """Somebody started the run who listens to it."""
    return _session.get() is not None


def session() -> Session:
    return _session.get() or Session()


@contextmanager
def listening(chosen: Session) -> Iterator[Session]:
    """Runs started in this block report to this session."""
    token = _session.set(chosen)
    try:
        yield chosen
    finally:
        _session.reset(token)


class EndedEarly(Exception):
    """A run was asked to end before it had attempts."""


class Stopped(KeyboardInterrupt):
    """A signal ended the run before it had attempts."""

    def __init__(self, number: int) -> None:
        super().__init__(signals.Signals(number).name)
        self.exit_code = 128 + number
