"""One open Modal sandbox: commands, files and the network policy in force."""

import asyncio
import logging
import posixpath
import shlex
import socket
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from agentcompass.components.contracts.errors import AgentCompassError, Code
from agentcompass.components.contracts.requirements import (
    Network,
    NetworkPolicy,
    SandboxPhase,
)
from agentcompass.components.contracts.sandbox import (
    DEFAULT_CAPTURE,
    Capture,
    CaptureLimits,
    ExecResult,
)
from agentcompass.components.environments._clipped_output import ClippedOutput
from agentcompass.components.environments._modal import files as _files
from agentcompass.components.environments._modal import network as _network
from agentcompass.components.environments._modal import scripts
from agentcompass.components.environments._modal.commands import Commands, Launch
from agentcompass.components.environments._modal.errors import one_line, persistently

if TYPE_CHECKING:
    import modal

OUTPUT_LIMIT_KB = 256
"""Kept of each stream of a command unless the caller says otherwise."""
_MOST_ARGUMENT_BYTES = 24 * 1024
"""Longer commands go through a file: Modal allows 64 KiB, Linux 128 in one argument."""
_STAGED = 'eval "$(cat <&9)" 9<&-'

_log = logging.getLogger(__name__)


class _User(NamedTuple):
    user_id: str
    group_id: str
    groups: str
    name: str
    home: str
    how: str
    """`already`, `setpriv`, `su` or `none`."""


class ModalSandbox:
    """Satisfies contracts.sandbox.Environment. Files are read and written as the image's own
    user (root, as a rule), and given to who runs commands."""

    def __init__(
        self,
        sandbox: "modal.Sandbox",
        image: str | None,
        variables: Mapping[str, str],
        network: Network,
    ) -> None:
        self.workdir = "/"
        self.image = image
        self._sandbox = sandbox
        self._commands = Commands(sandbox)
        self._variables = variables
        self._network = network
        self._phase: SandboxPhase = "baseline"
        self._in_force: tuple[NetworkPolicy, frozenset[str]] = (network.baseline, frozenset())
        self._model_hosts: frozenset[str] = frozenset()
        self._shell = "/bin/sh"
        self._user: str | None = None
        self._owner = _files.Owner()
        self._users: dict[str, _User] = {}

    async def prepare(self, workdir: str | None, user: str | None) -> None:
        """Raises environment.setup."""
        code, output, said = await self._commands.short(scripts.PREPARE, workdir or "")
        if code != 0:
            raise _setup(f"the directory {workdir} cannot be made: {said}")
        self._shell, _, place = output.decode("utf-8", "replace").partition("\n")
        self.workdir = place.removesuffix("\n")
        if user is not None:
            found = await self._find_user(user)
            self._user = user
            self._owner = _files.Owner(int(found.user_id), int(found.group_id))
            if workdir is not None:
                words = ["chown", self._owner.text, "--", self.workdir]
                await self._commands.short('exec "$@"', *words)

    async def enter(self, phase: SandboxPhase) -> None:
        self._commands.check_open()
        self._phase = phase
        await self._apply()

    async def model_address(self, base_url: str) -> str:
        """A public address as it is, let through whatever the policy is."""
        host = _network.host_of(base_url)
        if _network.is_private(host) or await _resolves_to_private(host):
            raise _setup(
                f"a sandbox at Modal cannot reach the model endpoint {base_url}, which only this "
                "machine or its network sees; use an endpoint with a public address, an agent "
                "that runs outside the sandbox, or --env docker"
            )
        restricted = any(
            policy != "public" for policy in (self._in_force[0], self._network.during("run"))
        )
        if restricted and not _network.can_be_let_through(base_url):
            raise _setup(
                f"the network policy cannot let the model endpoint {base_url} through: Modal "
                "allows names at https and port 443 only"
            )
        self._model_hosts |= {host}
        await self._apply()
        return base_url

    async def alive(self) -> bool:
        try:
            self._commands.check_open()
            poll = self._sandbox.poll.aio
            return await persistently(lambda: poll(), seconds=10, in_all=20) is None
        except Exception as error:  # whatever the SDK and its transports raise
            _log.debug("sandbox %s: %s", self._sandbox.object_id, error)
            return False

    async def exec(
        self,
        command: str | Sequence[str],
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        user: str | None = None,
        stdin: bytes | None = None,
        timeout_seconds: float | None = None,
        output_limit_kb: int | None = None,
        merge_stderr: bool = False,
    ) -> ExecResult:
        """See the contract. What a command leaves running in the background lives on until the
        sandbox closes. A command killed by a signal has exit code 128 + its number: Modal tells
        no more."""
        self._commands.check_open()
        argv = [self._shell, "-c", command] if isinstance(command, str) else list(command)
        variables = {**self._variables, **(env or {})}
        directory = self._path(cwd or "")
        if problem := _unstartable(argv, directory, variables):
            return ExecResult(problem[0], "", problem[1])
        started = time.monotonic()
        staged = ""
        if _too_long(argv):
            argv, staged = await self._stage(command)
        if (name := user or self._user) is not None:
            argv, variables = _become(await self._find_user(name), argv, variables)
        limit = (output_limit_kb or OUTPUT_LIMIT_KB) * 1024
        stdout, stderr = ClippedOutput(limit), ClippedOutput(limit)
        code, out_of_memory = await self._commands.run(
            Launch(argv, _sendable(variables), directory, stdin, merge_stderr, staged),
            stdout.add,
            stderr.add,
            timeout_seconds,
        )
        out, out_dropped = stdout.text()
        err, err_dropped = stderr.text()
        return ExecResult(
            code,
            out,
            err,
            timed_out=code is None,
            stdout_dropped_bytes=out_dropped,
            stderr_dropped_bytes=err_dropped,
            out_of_memory=out_of_memory,
            duration_seconds=time.monotonic() - started,
        )

    async def read_file(self, path: str, *, max_bytes: int | None = None) -> bytes:
        return await _files.read_file(self._commands, self._file(path), max_bytes)

    async def write_file(self, path: str, content: bytes, *, mode: int = 0o644) -> None:
        """A directory in its place raises IsADirectoryError. Links in its parents are followed."""
        await _files.write_file(
            self._commands, self._file(path), content, len(content), mode, self._owner
        )

    async def upload(self, source: Path, target: str) -> None:
        """Folders need `tar` in the image."""
        await _files.upload(self._commands, source, self._file(target), self._owner)

    async def capture(self, path: str, limits: CaptureLimits = DEFAULT_CAPTURE) -> Capture:
        """Needs `find`, `stat` and `tar` in the image."""
        return await _files.capture(self._commands, self._file(path), limits)

    def close(self) -> None:
        """Whoever still waits for something of it hears that it is lost."""
        self._commands.close()

    async def _apply(self) -> None:
        policy = self._network.during(self._phase)
        wanted = (policy, frozenset() if policy == "public" else self._model_hosts)
        if wanted == self._in_force:
            return
        lists = _network.for_change(*wanted)
        change = self._sandbox._experimental_set_outbound_network_policy
        try:
            await persistently(lambda: change.aio(**lists), seconds=30, in_all=60)
        except Exception as error:  # of whatever kind: the policy is not in force
            self._commands.check_open()
            raise _setup(f"the network policy cannot be changed: {one_line(error)}") from error
        self._in_force = wanted

    async def _stage(self, command: str | Sequence[str]) -> tuple[list[str], str]:
        """A long command as a file inside, and what reads it from descriptor 9."""
        line = command if isinstance(command, str) else f"exec {shlex.join(command)}"
        content = line.encode("utf-8", "surrogateescape")
        code, output, said = await self._commands.short(
            "file=$(mktemp) && cat >$file && printf '%s' \"$file\"", stdin=content
        )
        if code != 0:
            raise _setup(f"a long command cannot be put into a file: {said}")
        return [self._shell, "-c", _STAGED], output.decode()

    async def _find_user(self, name: str) -> _User:
        if name not in self._users:
            code, output, said = await self._commands.short(scripts.WHO, name)
            lines = output.decode("utf-8", "replace").split("\n")
            if code != 0 or len(lines) < 6:
                raise _setup(f"the image has no user {name!r} ({said or 'unknown'})")
            self._users[name] = _User(*lines[:6])
        found = self._users[name]
        if found.how == "none":
            raise _setup(f"commands cannot run as {name!r}: the image has no setpriv and no su")
        return found

    def _file(self, path: str) -> str:
        self._commands.check_open()
        if "\0" in path:
            raise FileNotFoundError(2, "the path holds a NUL character", path)
        try:
            path.encode()
        except UnicodeEncodeError:
            raise FileNotFoundError(2, "the path is not UTF-8", path) from None
        return self._path(path)

    def _path(self, path: str) -> str:
        return posixpath.normpath(posixpath.join(self.workdir, path)) if path else self.workdir


def _setup(why: str) -> AgentCompassError:
    return AgentCompassError(Code.ENVIRONMENT_SETUP, f"modal: {why}")


def _become(
    user: _User, argv: Sequence[str], variables: Mapping[str, str]
) -> tuple[list[str], dict[str, str]]:
    own = {"HOME": user.home, "USER": user.name, "LOGNAME": user.name, **variables}
    match user.how:
        case "setpriv":
            ids = ["--reuid", user.user_id, "--regid", user.group_id, "--groups", user.groups]
            return ["setpriv", *ids, "--", "/bin/sh", "-c", 'exec "$@"', "sh", *argv], own
        case "su":
            line = f"exec {shlex.join(argv)}"
            return ["su", "-m", "-s", "/bin/sh", "-c", line, user.name], own
    return list(argv), own


def _unstartable(
    argv: Sequence[str], directory: str, variables: Mapping[str, str]
) -> tuple[int, str] | None:
    """Exit code and reason for what no kernel would start."""
    if not argv or not argv[0]:
        return 127, "cannot start: the command is empty\n"
    if any("\0" in text for text in (*argv, directory, *variables.values())):
        return 126, "cannot start: the command holds a NUL character\n"
    if bad := [name for name in variables if not name or "=" in name or "\0" in name]:
        return 126, f"cannot start: {bad[0]!r} is not a variable's name\n"
    return None


def _too_long(argv: Sequence[str]) -> bool:
    try:
        return sum(len(word.encode()) + 8 for word in argv) > _MOST_ARGUMENT_BYTES
    except UnicodeEncodeError:  # bytes that are not UTF-8: no argument of a call can hold them
        return True


def _sendable(variables: Mapping[str, str]) -> dict[str, str]:
    """What is not UTF-8 cannot be sent; it is replaced."""
    return {
        name.encode("utf-8", "replace").decode(): value.encode("utf-8", "replace").decode()
        for name, value in variables.items()
    }


async def _resolves_to_private(host: str) -> bool:
    """Whether a name stands for addresses that only this network sees; unknown: no."""
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError:
        return False
    return all(_network.is_private(str(address[4][0])) for address in found)
