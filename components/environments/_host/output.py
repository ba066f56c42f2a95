"""One output stream of a running command, read as it comes."""

import asyncio
import os

from agentcompass.components.environments._clipped_output import ClippedOutput


class OutputStream:
    """A pipe whose reading end the event loop drains. `ended` is done at its end of file."""

    def __init__(self, limit_bytes: int, owner: int | None = None) -> None:
        """`owner`: whose the pipe is to be: a command may open /dev/stderr anew."""
        self.clipped = ClippedOutput(limit_bytes)
        self._loop = asyncio.get_running_loop()
        self.ended: asyncio.Future[None] = self._loop.create_future()
        self.reader, self.writer = os.pipe()
        if owner is not None:
            os.fchown(self.writer, owner, owner)
        os.set_blocking(self.reader, False)
        self._loop.add_reader(self.reader, self._read)

    def handed_over(self) -> None:
        """The command has its end now; ours must go, else the end of file never comes."""
        if self.writer >= 0:
            os.close(self.writer)
            self.writer = -1

    def close(self) -> None:
        """Read no more. Safe to call again."""
        self.handed_over()
        if self.reader >= 0:
            self._loop.remove_reader(self.reader)
            os.close(self.reader)
            self.reader = -1
        if not self.ended.done():
            self.ended.set_result(None)

    def _read(self) -> None:
        try:
            chunk = os.read(self.reader, 65536)
        except BlockingIOError:
            return
        if chunk:
            self.clipped.add(chunk)
        else:
            self.close()
