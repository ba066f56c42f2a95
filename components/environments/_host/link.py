"""Our side of a sandbox's keeper: start it, hand it commands, hear how they end."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from agentcompass.components.contracts.errors import AgentCompassError, Code
from agentcompass.components.environments._host import keeper as _keeper
from agentcompass.components.environments._host.command import CommandPapers
from agentcompass.components.environments._host.keeper import RECORD

_SOURCES = str(Path(_keeper.__file__).parents[4])  # where the package lies
_PROGRAM = (
    "import os, sys; sys.path.append(sys.argv.pop(1)); "
    "from agentcompass.components.environments._host.{} import main; "
    "os._exit(main(sys.argv[1:]))"
)
_KEEPER = _PROGRAM.format("keeper")
_GUARD = _PROGRAM.format("bubblewrap_guard")
END_SECONDS = 30.0
"""How long an end is waited for. The keeper goes on by itself after that."""


@dataclass
class RunningCommand:
    """A command the keeper was handed."""

    number: int
    exited: asyncio.Future[int | None]
    """Exit code of its own process; None if the keeper is gone."""
    dead: asyncio.Future[None]
    """Done when nothing it started is left."""


@dataclass
class KeeperLink:
    """The connection to one keeper. Made and used inside one event loop."""

    root: str
    _control: socket.socket
    _process: "subprocess.Popen[bytes]"
    _made: "asyncio.Future[int | None]"
    """None when the workspace stands, else the errno of why it does not."""
    _closed: "asyncio.Future[None]"
    _errors: IO[bytes] | None = None
    """What an isolated sandbox's programs had to say before it stood."""
    view: int | None = None
    """The root directory of an isolated sandbox, open."""
    _commands: dict[int, RunningCommand] = field(default_factory=dict)
    _count: int = 0

    @classmethod
    def start(cls, root: str, owner: str, isolation: str | None = None) -> "KeeperLink":
        """Start the keeper of a new sandbox; not awaited, so that no cancellation can part us.

        `isolation`: the plan for its guard (see `bubblewrap_guard`).
        """
        loop = asyncio.get_running_loop()
        ours, theirs = socket.socketpair()
        errors = None
        try:
            if isolation is None:
                process = _process(_KEEPER, (root, owner), theirs)
            else:
                errors = tempfile.TemporaryFile()  # noqa: SIM115 (closed when the sandbox stands)
                process = _process(_GUARD, (root, owner, isolation), theirs, errors)
        except BaseException:
            ours.close()
            if errors is not None:
                errors.close()
            raise
        finally:
            theirs.close()
        ours.setblocking(False)
        link = cls(root, ours, process, loop.create_future(), loop.create_future(), errors)
        loop.add_reader(ours.fileno(), link._receive)
        return link

    @property
    def lost(self) -> bool:
        return self._closed.done()

    async def made(self) -> None:
        """Wait for the workspace. Raises OSError if it cannot be made, or the keeper's death."""
        either: list[asyncio.Future[Any]] = [self._made, self._closed]
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        reason = self._said()
        if not self._made.done():
            raise AgentCompassError(
                Code.ENVIRONMENT_START, reason or "the sandbox's keeper process ended at its start"
            )
        if (number := self._made.result()) is not None:
            raise OSError(number, os.strerror(number), self.root)

    async def again(self, kind: int) -> None:
        """End all that runs and go on in another isolated sandbox over the same files.

        `kind`: one of `bubblewrap_guard.AGAIN`.
        """
        self._made = asyncio.get_running_loop().create_future()
        ended = list(self._commands.values())
        self._say(b"next", 0, kind)
        await self.made()
        for command in ended:
            if self._commands.pop(command.number, None):
                _settle(command.exited, -signal.SIGKILL)
                _settle(command.dead, None)

    def run(
        self, papers: CommandPapers, streams: Sequence[int], outputs: Sequence[int]
    ) -> RunningCommand:
        """Start a command; `streams`: its stdout and stderr; `outputs`: our ends of them.

        Raises BlockingIOError when the keeper is too busy to take one more: try again.
        """
        payload, stdin, *script = (file.fileno() for file in papers.files)
        message = RECORD.pack(b"run_", self._count + 1, 0)
        socket.send_fds(self._control, [message], [payload, stdin, *streams, *script, *outputs])
        self._count += 1
        loop = asyncio.get_running_loop()
        command = RunningCommand(self._count, loop.create_future(), loop.create_future())
        self._commands[command.number] = command
        return command

    def kill(self, command: RunningCommand) -> None:
        """End all that the command started: TERM, a grace, KILL."""
        self._tell(b"kill", command)

    def drop(self, command: RunningCommand) -> None:
        """We shall read no more of its output; what it left running lives on."""
        self._tell(b"drop", command)

    async def end(self) -> bool:
        """End everything inside and remove the workspace; True when nothing is left of it."""
        self._said()
        if not self.lost:
            self._control.shutdown(socket.SHUT_WR)
            await asyncio.wait([self._closed], timeout=END_SECONDS)
        if not self.lost:
            self._hang_up()
            return False
        try:
            code = self._process.wait(timeout=1)  # it closed its socket: it is ending
        except subprocess.TimeoutExpired:
            return False
        if code < 0:
            return await self._sweep()
        return code == 0

    async def _sweep(self) -> bool:
        """The keeper was killed: clear up in its stead."""
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        try:
            with theirs:
                sweeper = _process(_KEEPER, ("--sweep", self.root), theirs)
            loop = asyncio.get_running_loop()
            await asyncio.wait_for(loop.sock_recv(ours, 1), END_SECONDS)  # closed at its end
            return sweeper.wait(timeout=1) == 0
        except (TimeoutError, subprocess.TimeoutExpired):
            return False
        finally:
            ours.close()

    def _said(self) -> str:
        """The last line its programs wrote to stderr; read once."""
        errors, self._errors = self._errors, None
        if errors is None:
            return ""
        with errors:
            errors.seek(max(0, errors.seek(0, os.SEEK_END) - 2000))
            lines = errors.read().decode(errors="replace").split("\n")
        return next((line.strip() for line in reversed(lines) if line.strip()), "")

    def _tell(self, word: bytes, command: RunningCommand) -> None:
        if not command.dead.done():
            self._say(word, command.number)

    def _say(self, word: bytes, number: int, value: int = 0) -> None:
        if self.lost:
            return
        try:
            self._control.send(RECORD.pack(word, number, value))
        except BlockingIOError:
            asyncio.get_running_loop().call_later(0.05, self._say, word, number, value)
        except OSError:
            self._hang_up()

    def _look_from(self, view: int | None) -> None:
        if self.view is not None:
            os.close(self.view)
        self.view = view

    def _receive(self) -> None:
        descriptors: list[int] = []
        try:
            data, descriptors, _, _ = socket.recv_fds(
                self._control, RECORD.size, 1, getattr(socket, "MSG_CMSG_CLOEXEC", 0)
            )
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if len(data) < RECORD.size:
            self._hang_up()
            return
        word, number, value = RECORD.unpack(data)
        command = self._commands.get(number)
        if word in (b"made", b"fail"):
            if descriptors:
                self._look_from(descriptors[0])
            if not self._made.done():
                self._made.set_result(value if word == b"fail" else None)
        elif command is not None and word == b"exit":
            _settle(command.exited, value)
        elif command is not None and word == b"dead":
            del self._commands[number]
            _settle(command.exited, None)
            _settle(command.dead, None)

    def _hang_up(self) -> None:
        if self.lost:
            return
        self._closed.set_result(None)
        self._look_from(None)
        asyncio.get_running_loop().remove_reader(self._control.fileno())
        self._control.close()
        for command in self._commands.values():
            _settle(command.exited, None)
            _settle(command.dead, None)
        self._commands.clear()


def _process(
    program: str,
    arguments: Sequence[str],
    control: socket.socket,
    errors: IO[bytes] | None = None,
) -> "subprocess.Popen[bytes]":
    library_path = os.environ.get("LD_LIBRARY_PATH")
    return subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", program, _SOURCES, *arguments],
        stdin=control.fileno(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL if errors is None else errors,
        cwd="/",
        env={"LD_LIBRARY_PATH": library_path} if library_path else {},
        start_new_session=True,
    )


def _settle(future: "asyncio.Future[Any]", value: int | None) -> None:
    if not future.done():
        future.set_result(value)
