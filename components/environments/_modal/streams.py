"""The streams of a command in a Modal sandbox, read and fed as they go."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Any

from agentcompass.components.environments._modal.errors import Trouble, trouble

if TYPE_CHECKING:
    import modal

Sink = Callable[[bytes], None]
"""Takes bytes; may raise to have the command stopped."""

_BLOCK = 512 * 1024
_AGAIN_SECONDS = 1.0


class OutputReader:
    """Hands a stream to a sink until the end mark, or the stream's own end.

    What a command left in the background keeps the stream open, and writes on after the mark.
    """

    def __init__(self, stream: Any, end: bytes, sink: Sink) -> None:
        self._stream, self._end, self._sink = stream, end, sink
        self._held = b""
        self.chunks = 0
        self.out_of_memory = False
        """Told by the byte after the mark."""

    async def run(self) -> None:
        """Raises what the sink raises, or the SDK's error that says the sandbox is gone."""
        while not await self._read():
            await asyncio.sleep(_AGAIN_SECONDS)  # broken off: the SDK goes on where it was

    def flush(self) -> None:
        """Hand over what could have been the start of a mark."""
        held, self._held = self._held, b""
        if held:
            self._sink(held)

    async def _read(self) -> bool:
        try:
            async for chunk in self._stream:
                self.chunks += 1
                if self._take(chunk):
                    return True
        except Exception as error:  # sorted by `trouble`; what it does not know rises
            if trouble(error) is not Trouble.TRANSIENT:
                raise
            return False
        self.flush()
        return True

    def _take(self, chunk: bytes) -> bool:
        data = self._held + chunk
        at = data.find(self._end)
        if at >= 0:
            after = data[at + len(self._end) :]
            self._held = b"" if after else data[at:]
            self.out_of_memory = after.startswith(b"!")
            if at:
                self._sink(data[:at])
            return bool(after)
        keep = _common(data, self._end)
        self._held = data[len(data) - keep :]
        if len(data) > keep:
            self._sink(data[: len(data) - keep])
        return False


def _common(data: bytes, mark: bytes) -> int:
    """How many bytes at the end of `data` could be the start of `mark`."""
    for length in range(min(len(data), len(mark) - 1), 0, -1):
        if data.endswith(mark[:length]):
            return length
    return 0


async def feed(process: "modal.container_process.ContainerProcess[bytes]", stdin: Any) -> None:
    """All of it and then the end; stops where nobody reads any more."""
    async for block in _blocks(stdin):
        process.stdin.write(block)
        if not await _drained(process):
            return
    process.stdin.write_eof()
    await _drained(process)


async def _drained(process: "modal.container_process.ContainerProcess[bytes]") -> bool:
    while True:
        try:
            await process.stdin.drain.aio()
            return True
        except Exception as error:  # sorted by `trouble`; what it does not know rises
            kind = trouble(error)
            if kind in (Trouble.GONE, Trouble.REFUSED):  # stdin is closed
                return False
            if kind is not Trouble.TRANSIENT and kind is not Trouble.LIMITED:
                raise
            await asyncio.sleep(_AGAIN_SECONDS)  # it keeps the block and its offset


async def _blocks(stdin: "bytes | AsyncIterator[bytes]") -> AsyncIterator[bytes]:
    if not isinstance(stdin, bytes):
        async for block in stdin:
            yield block
        return
    for start in range(0, len(stdin), _BLOCK):
        yield stdin[start : start + _BLOCK]
