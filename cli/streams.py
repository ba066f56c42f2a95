"""The two output streams: always UTF-8, and a reader that goes away is no error.

stdout carries the result, stderr all the rest.
"""

import contextlib
import io
import os
import select
import sys
from pathlib import Path
from typing import TextIO

from agentcompass.cli.failed import CommandFailed


def prepare() -> None:
    """Make both streams hold any text, whatever the locale; a closed one swallows it."""
    for name in ("stdout", "stderr"):
        stream: TextIO | None = getattr(sys, name)
        if stream is None:  # started with `>&-`
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")


def finish(code: int) -> int:
    """Flush; the exit code. A full disk behind stdout is told, a closed pipe is not."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        _discard(sys.stdout)
    except OSError as error:
        _discard(sys.stdout)
        complain(f"agentcompass: the output could not be written: {error.strerror}")
        code = code or 4
    with contextlib.suppress(OSError, ValueError):
        sys.stderr.flush()
    return code


def put(text: str) -> None:
    """A line of the result, on stdout. Raises CommandFailed if it cannot be written."""
    try:
        print(text, file=sys.stdout)
    except BrokenPipeError:
        _discard(sys.stdout)
    except OSError as error:
        _discard(sys.stdout)
        raise CommandFailed(f"the output could not be written: {error.strerror}") from error


def complain(text: str) -> None:
    """A line on stderr; a stderr that is gone must not stop a run."""
    try:
        print(text, file=sys.stderr, flush=True)
    except (OSError, ValueError):
        _discard(sys.stderr)


def reader_is_gone() -> bool:
    """Whether stdout is a pipe that nobody reads any more: any other pipe may break, too."""
    asked = select.poll()
    try:
        asked.register(sys.stdout.fileno(), 0)
    except (OSError, ValueError):  # no file at all
        return False
    return any(event & (select.POLLERR | select.POLLHUP) for _, event in asked.poll(0))


def _discard(stream: TextIO) -> None:
    """Let all later writes, the interpreter's own flush at its end included, go nowhere."""
    with contextlib.suppress(OSError, ValueError):
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, stream.fileno())
        os.close(null)
