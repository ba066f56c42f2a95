"""Recognise a test's own processes among all of this machine's: by a number only they sleep."""

import os
import random
import time

import psutil


class Sleeps:
    """`sleep` commands that no other test runs."""

    def __init__(self) -> None:
        self.seconds = f"3600.{random.randrange(10**9):09d}{os.getpid()}"
        self.command = f"sleep {self.seconds}"

    def alive(self) -> list[psutil.Process]:
        found = []
        for process in psutil.process_iter(["cmdline", "status"]):
            if self.seconds in (process.info["cmdline"] or ())[-1:]:
                found.append(process)
        return found

    def wait(self, count: int, seconds: float = 30) -> int:
        """How many are alive, once that is `count` or the time is over."""
        give_up = time.monotonic() + seconds
        while len(self.alive()) != count and time.monotonic() < give_up:
            time.sleep(0.05)
        return len(self.alive())


ESCAPES = (
    "{0} & "  # a child in the background
    "setsid {0} & "  # its own session
    "(setsid sh -c '{0} & exit' &) ; "  # a daemon, its parents gone
    "env -i setsid sh -c 'cd /; {0} & exit' ; "  # … that dropped its environment too
    "(trap '' TERM HUP INT; {0}) & "
    "nohup {0} >/dev/null 2>&1 & "
    "(sh -c 'kill -STOP $$; :' & exec {0} >/dev/null 2>&1 </dev/null) & "
)
"""A line that leaves 7 sleeps, each in another way, and goes on. Format with the command."""
ESCAPED = 7
