"""Start processes that use shared limits, and see from outside what they did together.

All times are seconds of the machine's monotonic clock, which its processes share.
"""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import accumulate, pairwise
from pathlib import Path

WORKER = Path(__file__).with_name("limit_worker.py")


@dataclass
class User:
    """One worker process and what it wrote."""

    process: subprocess.Popen[bytes]
    log: Path
    killed: float | None = None

    @classmethod
    def start(cls, kind: str, *words: object, log: Path, **env: str) -> "User":
        """`words` as limit_worker.py takes them, without the log."""
        command = [sys.executable, str(WORKER), kind, *map(str, words), str(log)]
        with log.with_suffix(".err").open("wb") as errors:
            process = subprocess.Popen(command, stderr=errors, env={**os.environ, **env})
        return cls(process, log)

    def finish(self, timeout: float = 240) -> None:
        assert self.process.wait(timeout) == 0, self.errors

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        self.killed = time.monotonic()

    @property
    def errors(self) -> str:
        return self.log.with_suffix(".err").read_text()

    def times(self, word: str) -> list[float]:
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        return [float(at) for at, told in map(str.split, lines) if told == word]

    @property
    def busy(self) -> int:
        return len(self.times("begin")) - len(self.times("end"))


@contextmanager
def connected(url: str) -> Iterator[None]:
    """Prefect in this process talks to that API, whatever it was set up for."""
    from prefect.settings import (
        PREFECT_API_URL,
        PREFECT_CLIENT_CSRF_SUPPORT_ENABLED,
        PREFECT_CLIENT_SERVER_VERSION_CHECK_ENABLED,
        temporary_settings,
    )

    settings = {
        PREFECT_API_URL: url,
        PREFECT_CLIENT_CSRF_SUPPORT_ENABLED: False,
        PREFECT_CLIENT_SERVER_VERSION_CHECK_ENABLED: False,
    }
    with temporary_settings(settings):
        yield


def until(condition: Callable[[], bool], within_seconds: float) -> float:
    """How long it took until the condition held; fails when it does not in time."""
    started = time.monotonic()
    while not condition():
        took = time.monotonic() - started
        assert took < within_seconds, f"not within {within_seconds} s"
        time.sleep(0.05)
    return time.monotonic() - started


def steps(users: Sequence[User]) -> list[tuple[float, int]]:
    """(time, attempts alive from then on), over all users; ends count before beginnings."""
    changes = []
    for user in users:
        begun, ended = user.times("begin"), user.times("end")
        if user.killed is not None:
            ended += [user.killed] * (len(begun) - len(ended))
        changes += [(at, 1) for at in begun] + [(at, -1) for at in ended]
    changes.sort()
    alive = accumulate(change for _, change in changes)
    return [(at, count) for (at, _), count in zip(changes, alive, strict=True)]


def most_alive(users: Sequence[User]) -> int:
    return max(count for _, count in steps(users))


def mean_alive(users: Sequence[User], since: float, until: float) -> float:
    """The mean number of attempts alive between two moments."""
    area = 0.0
    for (at, count), (following, _) in pairwise([*steps(users), (until, 0)]):
        area += count * max(0.0, min(following, until) - max(at, since))
    return area / (until - since)


def most_in_a_second(times: Sequence[float]) -> int:
    """The fullest window of one second."""
    ordered = sorted(times)
    return max(sum(1 for at in ordered if start <= at < start + 1) for start in ordered)
