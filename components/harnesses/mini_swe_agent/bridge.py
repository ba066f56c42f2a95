"""A synchronous agent in a thread of its own, whose calls run on the event loop.

The thread never outlives the attempt: when the attempt is cancelled, the call under way is
cancelled, and the next one raises `Stopped` in the thread.
"""

import asyncio
import concurrent.futures
import contextlib
import contextvars
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

Result = TypeVar("Result")

CLEAN_STOP_SECONDS = 5.0
"""How long a cancelled call (an exec that kills its processes, say) may take to end."""
THREAD_STOP_SECONDS = 2.0


class Stopped(BaseException):
    """The attempt is over. No Exception, so that the agent's own handlers let it pass."""


class Bridge:
    """Both ends of one agent thread. `run` is called on the loop, `call` in the thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.failure: BaseException | None = None
        """What the latest failed call raised: not the agent's own failure."""
        self._loop = loop
        self._lock = threading.Lock()
        self._stopping = False
        self._task: asyncio.Task[Any] | None = None
        self._waiting: concurrent.futures.Future[Any] | None = None

    async def run(self, work: Callable[[], Result]) -> Result:
        """The result of `work`, run in a new thread; raises what it raises."""
        done: asyncio.Future[Result] = self._loop.create_future()
        done.add_done_callback(lambda future: future.exception())  # seen, even if nobody asks
        context = contextvars.copy_context()
        thread = threading.Thread(
            target=context.run,
            args=(self._work, work, done),
            name="mini-swe-agent",
            daemon=True,  # the interpreter must not wait for it after an interrupt
        )
        thread.start()
        try:
            await asyncio.wait({done})  # unlike `await done`, cancelling leaves `done` alone
        finally:
            if not done.done():
                await self._stop(done)
        try:
            return done.result()
        except Stopped:  # the call under way was cancelled by someone else: the loop is closing
            raise asyncio.CancelledError from None

    def call(self, start: Callable[[], Coroutine[Any, Any, Result]]) -> Result:
        """Run a coroutine on the loop and wait for it. Raises Stopped after the attempt's end."""
        with self._lock:
            self.check()
            waiting = asyncio.run_coroutine_threadsafe(self._watched(start), self._loop)
            self._waiting = waiting
        try:
            return waiting.result()
        except concurrent.futures.CancelledError:
            raise Stopped from None
        except Exception as error:
            self.failure = error
            raise
        finally:
            self._waiting = None

    def check(self) -> None:
        """Raises Stopped after the attempt's end: nothing more may be recorded."""
        if self._stopping:
            raise Stopped

    async def _watched(self, start: Callable[[], Coroutine[Any, Any, Result]]) -> Result:
        if self._stopping:
            raise asyncio.CancelledError
        self._task = asyncio.current_task()
        try:
            return await start()
        finally:
            self._task = None

    async def _stop(self, done: "asyncio.Future[Any]") -> None:
        with self._lock:
            self._stopping = True
        try:
            if self._task is not None:
                self._task.cancel()
                await asyncio.wait({done}, timeout=CLEAN_STOP_SECONDS)
        finally:  # also when cancelled again: the thread must not wait for a call that hangs
            if self._waiting is not None:
                self._waiting.cancel()
        if not done.done():
            await asyncio.wait({done}, timeout=THREAD_STOP_SECONDS)

    def _work(self, work: Callable[[], Result], done: "asyncio.Future[Result]") -> None:
        try:
            result = work()
        except BaseException as error:  # crosses to the loop, where the attempt's edge judges it
            self._tell(done, error=error)
        else:
            self._tell(done, result=result)

    def _tell(
        self,
        done: "asyncio.Future[Any]",
        *,
        result: object = None,
        error: BaseException | None = None,
    ) -> None:
        def settle() -> None:
            if done.done():
                return
            if error is None:
                done.set_result(result)
            else:
                done.set_exception(error)

        with contextlib.suppress(RuntimeError):  # the loop closed: nobody waits any more
            self._loop.call_soon_threadsafe(settle)
