"""Where log lines go: all of them to the run's log file, ours to the console, failures to the UI.

Prefect's and litellm's own console output would break the progress display; it is in
`logs/run.log` instead.
"""

import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from datetime import UTC, datetime
from logging.handlers import MemoryHandler
from pathlib import Path

from agentcompass.components.contracts.run import RuntimeSettings
from agentcompass.components.results.masking import Masker

LINE = "%(asctime)s %(levelname)-7s %(name)s: %(message)s"


class RunLog:
    """Keeps the process's log lines in memory until the run has a folder, then in its file."""

    def __init__(self, level: str = "DEBUG") -> None:
        self._handler: logging.Handler = MemoryHandler(
            10_000, flushLevel=logging.CRITICAL + 1, flushOnClose=False
        )
        self._handler.setLevel(level)

    def open(self) -> None:
        self._handler.addFilter(self._is_ours)
        logging.getLogger().addHandler(self._handler)

    def _is_ours(self, record: logging.LogRecord) -> bool:
        """Not said in another run of this process."""
        return _current.get() in (self, None)

    def write_to(self, path: Path, masker: Masker) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = logging.FileHandler(path, encoding="utf-8", errors="backslashreplace")
        file.setLevel(self._handler.level)
        file.setFormatter(_Masked(masker))
        for record in getattr(self._handler, "buffer", ()):
            file.handle(record)
        self.close()
        self._handler = file
        self.open()

    def close(self) -> None:
        logging.getLogger().removeHandler(self._handler)
        self._handler.close()


_current: ContextVar[RunLog | None] = ContextVar("agentcompass_run_log", default=None)


@contextmanager
def run_log(settings: RuntimeSettings) -> Iterator[RunLog]:
    """The log of the run that goes on in this context; the process's logging stays as it is."""
    log = RunLog(settings.file_log_level)
    token = _current.set(log)
    log.open()
    try:
        yield log
    finally:
        log.close()
        _current.reset(token)


@contextmanager
def console_logging(settings: RuntimeSettings, masker: Masker) -> Iterator[None]:
    """Route all logging of this process: ours to the console, the rest nowhere but to run logs."""
    root, ours = logging.getLogger(), logging.getLogger("agentcompass")
    before = root.level, root.handlers[:], ours.level, ours.handlers[:]
    levels = logging.getLevelNamesMapping()
    quietest = min(levels[settings.log_level], levels[settings.file_log_level])
    logging.raiseExceptions = False  # a full disk must not fill the console with tracebacks
    logging.getLogger("httpx").setLevel(logging.WARNING)  # else a line for each Prefect call
    root.handlers = []
    root.setLevel(max(quietest, logging.INFO))  # libraries' DEBUG is megabytes a minute
    ours.setLevel(quietest)
    tell_failures_once()
    console = _Stderr()
    console.setLevel(settings.log_level)
    console.setFormatter(_Masked(masker, "%(levelname)s: %(message)s"))
    ours.handlers = [*ours.handlers, console]
    try:
        yield
    finally:
        root.handlers, ours.handlers = before[1], before[3]
        root.setLevel(before[0])
        ours.setLevel(before[2])


def survive_a_lost_reader() -> None:
    """The worker that reads our output may die; Prefect's console would end the program then, in
    the middle of whatever the event loop does."""
    known = [logging.getLogger(name) for name in logging.root.manager.loggerDict]
    for handler in {one for logger in (logging.root, *known) for one in logger.handlers}:
        if isinstance(handler, logging.StreamHandler) and not isinstance(
            handler, logging.FileHandler
        ):
            handler.emit = _until_lost(handler, handler.emit)  # type: ignore[method-assign, assignment]


def _until_lost(
    handler: logging.Handler, emit: Callable[[logging.LogRecord], None]
) -> Callable[[logging.LogRecord], None]:
    def tell(record: logging.LogRecord) -> None:
        try:
            emit(record)
        except (OSError, ValueError, SystemExit):  # rich makes an exit of a broken pipe
            handler.emit = _nowhere  # type: ignore[method-assign]

    return tell


def _nowhere(record: logging.LogRecord) -> None:
    pass


def tell_failures_once() -> None:
    """Prefect tells of a stage's failed state twice, the first time with an empty traceback."""
    logging.getLogger("prefect.task_runs").addFilter(_is_no_preview)


def _is_no_preview(record: logging.LogRecord) -> bool:
    return not record.getMessage().startswith("Task run failed with state")


class _Stderr(logging.Handler):
    """Looks sys.stderr up at each line: a live display may have replaced it."""

    def emit(self, record: logging.LogRecord) -> None:
        with suppress(OSError, ValueError):  # whoever read it is gone; the run goes on
            print(self.format(record), file=sys.stderr, flush=True)


class _Masked(logging.Formatter):
    """One record as text without secrets, tracebacks included. Times in UTC."""

    def __init__(self, masker: Masker, layout: str = LINE) -> None:
        super().__init__(layout)
        self._masker = masker

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:
        when = datetime.fromtimestamp(record.created, UTC)
        return when.isoformat(timespec="milliseconds").replace("+00:00", "Z")

    def format(self, record: logging.LogRecord) -> str:
        return self._masker.text(super().format(record))
