"""Our side of a sandbox's keeper: start it, hand it commands, hear how they end."""

import asyncio
import marshal
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import agentcompass
from agentcompass.components.contracts.errors import AgentCompassError, Code
from agentcompass.components.environments._host_keeper import RECORD, SCRIPT_DESCRIPTOR

_SOURCES = str(Path(agentcompass.__file__).parent.parent)
_KEEPER = (
    "import os, sys; sys.path.append(sys.argv.pop(1)); "
    "from agentcompass.components.environments._host_keeper import main; "
    "os._exit(main(sys.argv[1:]))"
)
_LONGEST_ARGUMENT = 128 * 1024 - 1  # the kernel's own limit for one argument
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


class CommandPapers:
    """What the keeper needs to start a command, as open files: payload, stdin, any script.

    Files, not pipes: nothing has to be fed while the output is drained. Raises OSError.
    """

    def __init__(
        self,
        argv: Sequence[bytes],
        cwd: bytes,
        variables: Mapping[bytes, bytes],
        stdin: bytes | None,
    ) -> None:
        script = None
        if len(argv) == 3 and argv[1] == b"-c" and len(argv[2]) > _LONGEST_ARGUMENT:
            script = argv[2]  # a shell line the kernel would not let through: the shell reads it
            argv = (argv[0], b"-c", b". /dev/fd/%d" % SCRIPT_DESCRIPTOR)
        payload = marshal.dumps((tuple(argv), cwd, dict(variables), script is not None))
        self.files: list[IO[bytes]] = []
        try:
            for content in (payload, stdin, *([script] if script is not None else ())):
                self.files.append(_file_holding(content))
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        for file in self.files:
            file.close()


@dataclass
class KeeperLink:
    """The connection to one keeper. Made and used inside one event loop."""

    root: str
    _control: socket.socket
    _process: "subprocess.Popen[bytes]"
    _made: "asyncio.Future[int | None]"
    """None when the workspace stands, else the errno of why it does not."""
    _closed: "asyncio.Future[None]"
    _commands: dict[int, RunningCommand] = field(default_factory=dict)
    _count: int = 0

    @classmethod
    def start(cls, root: str, owner: str) -> "KeeperLink":
        """Start the keeper of a new sandbox; not awaited, so that no cancellation can part us."""
        loop = asyncio.get_running_loop()
        ours, theirs = socket.socketpair()
        try:
            process = _keeper_process((root, owner), theirs)
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        ours.setblocking(False)
        link = cls(root, ours, process, loop.create_future(), loop.create_future())
        loop.add_reader(ours.fileno(), link._receive)
        return link

    @property
    def lost(self) -> bool:
        return self._closed.done()

    async def made(self) -> None:
        """Wait for the workspace. Raises OSError if it cannot be made, or the keeper's death."""
        either: list[asyncio.Future[Any]] = [self._made, self._closed]
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if not self._made.done():
            raise AgentCompassError(
                Code.ENVIRONMENT_START, "the sandbox's keeper process ended at its start"
            )
        if (number := self._made.result()) is not None:
            raise OSError(number, os.strerror(number), self.root)

    def run(
        self, papers: "CommandPapers", streams: Sequence[int], outputs: Sequence[int]
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
                sweeper = _keeper_process(("--sweep", self.root), theirs)
            loop = asyncio.get_running_loop()
            await asyncio.wait_for(loop.sock_recv(ours, 1), END_SECONDS)  # closed at its end
            return sweeper.wait(timeout=1) == 0
        except (TimeoutError, subprocess.TimeoutExpired):
            return False
        finally:
            ours.close()

    def _tell(self, word: bytes, command: RunningCommand) -> None:
        if self.lost or command.dead.done():
            return
        try:
            self._control.send(RECORD.pack(word, command.number, 0))
        except BlockingIOError:
            asyncio.get_running_loop().call_later(0.05, self._tell, word, command)
        except OSError:
            self._hang_up()

    def _receive(self) -> None:
        try:
            data = self._control.recv(RECORD.size)
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
        asyncio.get_running_loop().remove_reader(self._control.fileno())
        self._control.close()
        for command in self._commands.values():
            _settle(command.exited, None)
            _settle(command.dead, None)
        self._commands.clear()


def _keeper_process(arguments: Sequence[str], control: socket.socket) -> "subprocess.Popen[bytes]":
    library_path = os.environ.get("LD_LIBRARY_PATH")
    return subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", _KEEPER, _SOURCES, *arguments],
        stdin=control.fileno(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd="/",
        env={"LD_LIBRARY_PATH": library_path} if library_path else {},
        start_new_session=True,
    )


def _file_holding(content: bytes | None) -> IO[bytes]:
    if content is None:
        return Path(os.devnull).open("rb")
    file = tempfile.TemporaryFile()  # noqa: SIM115 (closed by who holds the papers)
    file.write(content)
    file.seek(0)
    return file


def _settle(future: "asyncio.Future[Any]", value: int | None) -> None:
    if not future.done():
        future.set_result(value)
