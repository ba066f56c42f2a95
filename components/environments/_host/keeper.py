"""The keeper of one `host_process` sandbox: makes its workspace, runs its commands, ends it all.

A program of its own (see `link`), standard library only. Why a process beside ours:
whatever a command starts (a child that called `setsid`, a double fork, a daemon that wiped its
environment) becomes the child of the nearest *subreaper* above it when its parent ends, and
cannot get out from under it. So each command has a shepherd, forked from the keeper and a
subreaper, and what stands under a shepherd is exactly what that command started. And when the
program that uses the sandbox dies, `kill -9` included, the keeper sees its socket close and
clears up alone.

File descriptor 0 is that socket. Both ways go RECORDs (word, command number, value):
  to the keeper    `run_` (with file descriptors, see `Command`), `kill`, `drop`; the end: close
  from the keeper  `made` or `fail` (errno) once; `exit` (exit code) when a command's own process
                   ended; `dead` when nothing it started is left
`drop`: nobody reads the command's output any more; its shepherd does, so that a server left
running is not killed or held up by a broken or full pipe.
"""

import contextlib
import ctypes
import fcntl
import gc
import marshal
import os
import select
import signal
import socket
import struct
import sys
from typing import NoReturn

from agentcompass.components.environments._host import ending

RECORD = struct.Struct("=4sIi")
FOLDERS = ("work", "home", "tmp")
OWNER_FILE = "sandbox.json"
SCRIPT_DESCRIPTOR = 9
LIFELINE = 8
"""In a sandbox: the reading end of a pipe that is closed when its guard is gone."""

KILL, DROP = signal.SIGUSR2, signal.SIGUSR1
_DEFERRED = {signal.SIGCHLD, KILL, DROP}
# `pkill python` inside must not take the keeper along; it ends when its socket does.
_IGNORED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)
_SET_NAME, _SET_DEATH_SIGNAL, _SET_DUMPABLE, _SET_SUBREAPER = 15, 1, 4, 36
_BROKEN = 70


def main(arguments: list[str]) -> int:
    """ROOT OWNER: keep a new sandbox. `--sweep` ROOT: end one whose keeper was itself killed.
    `--inside` USER: serve in a sandbox that stands already (see `bubblewrap_guard`)."""
    if arguments[0] == "--sweep":
        ending.kill_marked(arguments[1])
        return 0 if ending.remove_tree(os.fsencode(arguments[1])) else 1
    control = become_watcher(b"ac-keeper")
    if arguments[0] == "--inside":
        return _serve_inside(control, arguments[1])
    root, owner = arguments
    try:
        make_root(root, owner)
    except OSError as error:
        send(control, b"fail", 0, error.errno or 0)
        return 1
    try:
        send(control, b"made")
        _serve(control)
    except OSError as error:
        send(control, b"fail", 0, error.errno or 0)
    ending.end_descendants()
    return 0 if ending.remove_tree(os.fsencode(root)) else 1


def become_watcher(name: bytes) -> socket.socket:
    """Nothing a command sends us ends us, and what it leaves behind becomes our child."""
    for number in _IGNORED:
        signal.signal(number, signal.SIG_IGN)
    gc.disable()  # a tiny program with short-lived forks: collecting only unshares pages
    os.umask(0o022)
    _process_option(_SET_SUBREAPER, 1)
    _process_option(_SET_NAME, name)
    return socket.socket(fileno=0)


def _serve_inside(control: socket.socket, user: str) -> int:
    """As process 1 of the sandbox: nothing in it can signal us, and all ends when we do."""
    if user:  # we are root, and root without any right still owns what root owns
        os.setgroups([])
        os.setresgid(int(user), int(user), int(user))
        os.setresuid(int(user), int(user), int(user))
        _drop_inheritable()
    _process_option(_SET_DUMPABLE, 0)  # nor can it look into us: our socket is not for it
    _process_option(_SET_DEATH_SIGNAL, signal.SIGKILL)  # forgotten when the user changes
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in (1, 2):
        os.dup2(nothing, descriptor)
    root = os.open("/", os.O_RDONLY | os.O_DIRECTORY)
    socket.send_fds(control, [RECORD.pack(b"made", 0, 0)], [root])
    os.close(root)
    os.set_inheritable(LIFELINE, False)
    again = _serve(control, LIFELINE)
    ending.end_descendants()
    return again


def make_root(root: str, owner: str) -> None:
    os.mkdir(root, 0o700)  # noqa: PTH102 (pathlib costs start-up time)
    try:
        _furnish(root, owner)
    except OSError:
        ending.remove_tree(os.fsencode(root))
        raise


def _furnish(root: str, owner: str) -> None:
    for folder in FOLDERS:
        os.mkdir(f"{root}/{folder}", 0o755)  # noqa: PTH102
    descriptor = os.open(f"{root}/{OWNER_FILE}", os.O_WRONLY | os.O_CREAT, 0o600)
    os.write(descriptor, owner.encode())
    # Held, through `descriptor`, as long as this process or a shepherd lives: not a leftover.
    fcntl.flock(descriptor, fcntl.LOCK_EX)


def _serve(control: socket.socket, lifeline: int | None = None) -> int:
    """Start and end commands as asked, until the owner's side (or the lifeline) closes, or asks
    (`next`) for another sandbox over the same files: then the exit code that says which."""
    signals = Signals(signal.SIGCHLD)
    poll = select.poll()
    poll.register(0, select.POLLIN)
    poll.register(signals.reader, select.POLLIN)
    if lifeline is not None:
        poll.register(lifeline, 0)
    shepherds: dict[int, int] = {}
    while True:
        ready = dict(poll.poll())
        signals.clear()
        for pid, code in ending.reap()[0]:
            if (number := shepherds.pop(pid, None)) is not None:
                if code < 0:  # the shepherd itself was killed: by what it watched, most likely
                    send(control, b"exit", number, code)
                send(control, b"dead", number)
        if lifeline in ready:
            control.shutdown(socket.SHUT_RDWR)  # lost: no command's end is news any more
            return 0
        if 0 not in ready:
            continue
        record, descriptors, _, _ = socket.recv_fds(control, RECORD.size, 8)
        if len(record) < RECORD.size:
            return 0
        word, number, value = RECORD.unpack(record)
        if word == b"next":
            return int(value)
        if word == b"run_":
            if pid := _start_shepherd(control, number, descriptors):
                shepherds[pid] = number
        else:
            for pid, known in shepherds.items():
                if known == number:
                    os.kill(pid, KILL if word == b"kill" else DROP)


def _start_shepherd(control: socket.socket, number: int, descriptors: list[int]) -> int:
    keeper = os.getpid()
    for descriptor in descriptors:
        os.set_inheritable(descriptor, False)
    signal.pthread_sigmask(signal.SIG_BLOCK, _DEFERRED)  # until the fork has its own handlers
    try:
        pid = os.fork()
    except OSError as error:  # no process is left, of all there may be: the command's affair
        _refuse(control, number, descriptors, error)
        pid = -1
    if pid == 0:
        try:
            _shepherd(keeper, control, number, descriptors)
        finally:
            os._exit(_BROKEN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _DEFERRED)
    for descriptor in descriptors:
        os.close(descriptor)
    return max(pid, 0)


def _refuse(control: socket.socket, number: int, descriptors: list[int], error: OSError) -> None:
    with contextlib.suppress(OSError, IndexError):
        os.set_blocking(descriptors[3], False)
        os.write(descriptors[3], os.fsencode(f"cannot start: {error.strerror}\n"))
    send(control, b"exit", number, 126)
    send(control, b"dead", number)


def _shepherd(keeper: int, control: socket.socket, number: int, descriptors: list[int]) -> NoReturn:
    """Run one command, report its end, stay until nothing it started is left."""
    signals = Signals(*_DEFERRED)
    _process_option(_SET_SUBREAPER, 1)
    _process_option(_SET_DEATH_SIGNAL, KILL)
    command = _Command(descriptors)
    try:
        main_pid = command.start()
    except OSError as error:
        _refuse(control, number, descriptors, error)
        os._exit(0)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _DEFERRED)
    poll = select.poll()
    poll.register(0, 0)  # only whether the owner hung up
    poll.register(signals.reader, select.POLLIN)
    draining = False
    while True:
        ended, others = ending.reap()
        for pid, code in ended:
            if pid == main_pid:
                send(control, b"exit", number, code)
        if not others:
            os._exit(0)
        if KILL in signals.seen or os.getppid() != keeper:
            ending.end_descendants(main_pid)
            os._exit(0)
        if DROP in signals.seen and not draining:
            draining = True
            for descriptor in command.outputs:
                poll.register(descriptor, select.POLLIN)
        for descriptor, _ in poll.poll():
            if descriptor == 0:
                signals.seen.add(KILL)
            elif descriptor == signals.reader:
                signals.clear()
            elif not _discard(descriptor):
                poll.unregister(descriptor)


class _Command:
    """What a `run_` record brings: payload, stdin, stdout, stderr[, script], output reading ends.

    The payload is a file with marshal data: (argv, cwd, variables, has a script), all bytes.
    """

    def __init__(self, descriptors: list[int]) -> None:
        with os.fdopen(descriptors[0], "rb") as file:
            self.argv, self.cwd, self.variables, has_script = marshal.loads(file.read())
        self.streams = descriptors[1:4]
        self.script = descriptors[4] if has_script else None
        self.outputs = descriptors[5:] if has_script else descriptors[4:]

    def start(self) -> int:
        pid = os.fork()
        if pid == 0:
            try:
                self._become()
            finally:
                os._exit(126)
        for descriptor in self.streams:
            os.close(descriptor)
        return pid

    def _become(self) -> NoReturn:
        """Turn this process into the command, free of our signals and descriptors."""
        os.setsid()
        for number in (*_IGNORED, *_DEFERRED, signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        for target, descriptor in enumerate(self.streams):
            os.dup2(descriptor, target)
        if self.script is not None:
            os.dup2(self.script, SCRIPT_DESCRIPTOR)
            os.set_inheritable(SCRIPT_DESCRIPTOR, True)  # dup2 onto itself changes nothing
        place = self.cwd
        try:
            os.chdir(place)
            place = self.argv[0]
            os.execvpe(place, self.argv, self.variables)
        except OSError as error:
            os.write(2, b"cannot start in " if place is self.cwd else b"cannot start ")
            os.write(2, place + os.fsencode(f": {error.strerror}\n"))
            missing = isinstance(error, (FileNotFoundError, NotADirectoryError))
            os._exit(127 if missing else 126)


class Signals:
    """Signals as something `poll` can wait for."""

    def __init__(self, *numbers: int) -> None:
        self.seen: set[int] = set()
        self.reader, writer = os.pipe()
        os.set_blocking(self.reader, False)
        os.set_blocking(writer, False)
        for number in numbers:
            signal.signal(number, lambda number, _: self.seen.add(number))
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)

    def clear(self) -> None:
        _discard(self.reader)


def send(control: socket.socket, word: bytes, number: int = 0, value: int = 0) -> None:
    with contextlib.suppress(OSError):  # the owner is gone; `_serve` sees it
        control.send(RECORD.pack(word, number, value))


def _discard(descriptor: int) -> bool:
    """False at the end of the stream."""
    try:
        return bool(os.read(descriptor, 65536))
    except BlockingIOError:
        return True


def _drop_inheritable() -> None:
    """The last capabilities that setting ids leaves: those to be handed on. See capset(2)."""
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)
    ctypes.CDLL(None).capset(header, (ctypes.c_uint32 * 6)())


def _process_option(option: int, value: int | bytes) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)
