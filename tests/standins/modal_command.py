"""A command that runs in a stand-in's sandbox, its output kept for readers that come late."""

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator, Callable, Sequence

_CHUNK = 1024 * 1024
_MOST_UNREAD = 16 * 1024 * 1024
_KEPT_READ = 4 * 1024 * 1024
"""What was read already is kept this long back: a broken connection resumes at an offset."""


class _Output:
    def __init__(self) -> None:
        self.data = bytearray()
        self.start = 0  # offset of data[0]
        self.read_to = 0
        self.ended = False


class RunningCommand:
    """Descriptor 0 is stdout, 1 stderr, as the worker's protocol counts them.

    A stream ends when its pipe does: a child left in the background holds it open.
    """

    def __init__(self) -> None:
        self.outputs = (_Output(), _Output())
        self.code: int | None = None
        self.stdin_bytes = 0
        self.stdin_closed = False
        self._changed = asyncio.Event()

    async def start(
        self,
        argv: Sequence[str],
        env: dict[str, str],
        *,
        timeout_seconds: float | None = None,
        on_exit: Callable[[int], None] | None = None,
        pass_fds: Sequence[int] = (),
    ) -> None:
        self.process = await asyncio.create_subprocess_exec(
            *argv,
            env=env,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
            pass_fds=pass_fds,
        )
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        self._pumps = [
            asyncio.create_task(self._pump(self.outputs[0], self.process.stdout)),
            asyncio.create_task(self._pump(self.outputs[1], self.process.stderr)),
        ]
        self._run = asyncio.create_task(self._until_exit(timeout_seconds, on_exit))

    async def _until_exit(
        self, timeout_seconds: float | None, on_exit: Callable[[int], None] | None
    ) -> None:
        try:
            code = await asyncio.wait_for(self._exited(), timeout_seconds)
        except TimeoutError:
            self.kill()
            code = await self._exited()
        self.code = code
        self._wake()
        if on_exit:
            on_exit(code)

    async def _exited(self) -> int:
        """asyncio's own wait is over only when nobody holds the pipes any more."""
        while self.process.returncode is None:
            await asyncio.sleep(0.005)
        return self.process.returncode

    async def _pump(self, output: _Output, pipe: asyncio.StreamReader) -> None:
        while data := await pipe.read(65536):
            output.data += data
            self._wake()
            while len(output.data) > _MOST_UNREAD + _KEPT_READ:
                if self.code is not None:  # nobody may come any more: a child writes on
                    self._drop(output, len(output.data) - _MOST_UNREAD)
                else:
                    await self._changed.wait()
        output.ended = True
        self._wake()

    def _drop(self, output: _Output, count: int) -> None:
        if count > 0:
            del output.data[:count]
            output.start += count

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError, AttributeError):  # gone, or not begun
            os.killpg(self.process.pid, signal.SIGKILL)

    async def stop(self) -> None:
        """Nothing of it goes on, whatever still holds its pipes."""
        self.kill()
        tasks = (*self._pumps, self._run)
        await asyncio.wait([self._run], timeout=5)
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)

    async def read(self, descriptor: int, offset: int) -> AsyncIterator[bytes]:
        output = self.outputs[descriptor]
        while True:
            offset = max(offset, output.start)
            at = offset - output.start
            if len(output.data) > at:
                chunk = bytes(output.data[at : at + _CHUNK])
                offset += len(chunk)
                yield chunk
                self._drop(output, offset - _KEPT_READ - output.start)
                self._wake()
            elif output.ended:
                return
            else:
                await self._changed.wait()

    async def done(self) -> int:
        while self.code is None:
            await self._changed.wait()
        return self.code

    async def write(self, offset: int, data: bytes, eof: bool) -> None:
        """A repeated write holds bytes that are in already. BrokenPipeError: the reader is gone."""
        if self.process.returncode is not None and data:
            raise BrokenPipeError
        assert self.process.stdin is not None
        data = data[max(0, self.stdin_bytes - offset) :]
        self.process.stdin.write(data)
        self.stdin_bytes += len(data)
        await self.process.stdin.drain()
        if eof:
            self.stdin_closed = True
            self.process.stdin.close()
