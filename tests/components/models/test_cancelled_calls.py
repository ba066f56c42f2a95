"""Ctrl-C while a library still prepares a call: nothing of that library's insides is printed."""

import subprocess
import sys

import pytest

from tests.components.models.conversations import PROTOCOLS

PROGRAM = """
import asyncio, sys, time
from concurrent.futures import ThreadPoolExecutor
from tests.components.models.conversations import ask, attempt, provider, request

class Interrupting(ThreadPoolExecutor):
    def submit(self, work, *arguments, **named):
        def interrupted():
            made = work(*arguments, **named)
            if asyncio.iscoroutine(made):  # made, and not yet handed over
                loop.call_soon_threadsafe(asking.cancel)
                print("interrupted")
                time.sleep(0.2)
            return made
        return super().submit(interrupted)

async def main():
    global loop, asking
    loop = asyncio.get_running_loop()
    loop.set_default_executor(Interrupting(2))
    made = provider(sys.argv[1], "http://127.0.0.1:9", max_retry_seconds=0)
    asking = asyncio.create_task(made.client(attempt()).complete(request()))
    await asyncio.wait([asking])
    await asyncio.sleep(0.3)
    assert asking.cancelled()

asyncio.run(main())
"""


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_call_cancelled_before_it_is_made_leaves_no_warning(protocol: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, protocol],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert (done.stdout, done.stderr, done.returncode) == ("interrupted\n", "", 0)
