"""Commands run as plain processes on this machine, each attempt in a private workspace.

No isolation: a command can read and change whatever the user who runs AgentCompass can. Use it
for agents you trust, or on a machine that holds nothing else.

A workspace is a new directory `agentcompass-<run>-<task>-…` (mode 0700) with `work/` (where
commands start), `home/` (HOME) and `tmp/` (TMPDIR). Closing ends every process started inside
and removes it; when AgentCompass itself is killed, the sandbox's keeper process does the same.

Commands see none of your environment but PATH, less the virtual environment AgentCompass runs
from, and what `env` and `inherit_env` name.
"""

import asyncio
import errno
import json
import logging
import os
import pwd
import re
import secrets
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path

from agentcompass.components.contracts.attempt import AttemptKey
from agentcompass.components.contracts.errors import AgentCompassError, Code, RequestError
from agentcompass.components.contracts.parameters import EnvironmentParameters
from agentcompass.components.contracts.protocols import Component
from agentcompass.components.contracts.sandbox import Capabilities, Environment, SandboxLabel
from agentcompass.components.contracts.task import Requirements
from agentcompass.components.environments._host_ending import MARKER
from agentcompass.components.environments._host_leftovers import (
    Leftover,
    find_leftovers,
    remove_leftover,
)
from agentcompass.components.environments._host_link import KeeperLink
from agentcompass.components.environments._host_sandbox import HostSandbox, to_its_end
from agentcompass.components.environments._quiet_commands import QUIET_COMMANDS
from agentcompass.components.environments._variables import check_name, from_shell, resolved

_log = logging.getLogger(__name__)


class HostProcessParameters(EnvironmentParameters):
    inherit_env: tuple[str, ...] = ()
    """Names of variables of your shell that commands see too, such as `HTTPS_PROXY`."""
    temp_dir: str | None = None
    """Where workspaces are made; unset: the system's directory for temporary files (TMPDIR)."""


class HostProcess:
    """Satisfies contracts.protocols.EnvironmentProvider."""

    capabilities = Capabilities(isolated=False)

    def __init__(self, parameters: HostProcessParameters) -> None:
        self._parameters = parameters
        self._given_variables()  # an unset variable is refused before anything starts

    async def preflight(self, requirements: Iterable[Requirements]) -> list[str]:
        problems = []
        workdirs: Counter[str] = Counter()
        bad_variables: set[str] = set()
        for required in requirements:
            if required.workdir is not None:
                workdirs[required.workdir] += 1
            try:
                resolved(required.env, os.environ, "requirements.env")
            except RequestError as error:
                bad_variables.add(str(error))
        problems += [
            f"tasks of this benchmark need the directory {workdir} ({count} of them), which "
            "host_process cannot give; use --env docker"
            for workdir, count in sorted(workdirs.items())
        ]
        problems += sorted(bad_variables)
        try:  # the honest test: open one
            key = AttemptKey(task_id="preflight", index=1)
            async with self.open(Requirements(), SandboxLabel("check", key, "preflight")):
                pass
        except AgentCompassError as error:
            problems.append(f"host_process: {error}")
        return problems

    @asynccontextmanager
    async def open(
        self, requirements: Requirements, label: SandboxLabel
    ) -> AsyncIterator[Environment]:
        """Raises `environment.start`, or `environment.disk_full`."""
        if requirements.workdir is not None:
            raise AgentCompassError(
                Code.ENVIRONMENT_START,
                f"host_process cannot give a task the directory {requirements.workdir}; "
                "use --env docker",
            )
        root = self._new_root(label)
        shell = shutil.which("bash") or "/bin/sh"
        user = _user_name()
        variables = {
            **_own_variables(root, shell, user),
            **self._given_variables(),
            **resolved(requirements.env, os.environ, "requirements.env"),
            MARKER: root,
        }
        link = _started(root, label)
        sandbox = HostSandbox(link, shell, variables, user)
        try:
            try:
                await link.made()
            except OSError as error:
                raise _start_failure(error) from error
            yield sandbox
        finally:
            if label.keep:
                _keep(root, label)
            if not await to_its_end(sandbox.close()):
                _log.warning("a sandbox could not be removed completely: %s", root)

    async def leftovers(self) -> tuple[Leftover, ...]:
        """Sandboxes of this user that nobody keeps any more."""
        return await asyncio.to_thread(find_leftovers, self._parent())

    async def remove_leftover(self, leftover: Leftover) -> bool:
        return await asyncio.to_thread(remove_leftover, leftover)

    def _parent(self) -> Path:
        try:
            return Path(self._parameters.temp_dir or tempfile.gettempdir()).expanduser()
        except OSError as error:  # no directory for temporary files is writable
            raise _start_failure(error) from error

    def _new_root(self, label: SandboxLabel) -> str:
        run, task = _short(label.run_id), _short(label.attempt.task_id)
        # Real, for `pwd` to agree with; short, for sockets inside (108 bytes with their path).
        return os.path.realpath(
            self._parent() / f"agentcompass-{run}-{task}-{secrets.token_hex(4)}"
        )

    def _given_variables(self) -> dict[str, str]:
        """What the user asked for, read from their shell now. Raises RequestError."""
        inherited = {}
        for name in self._parameters.inherit_env:
            check_name(name, "env-params.inherit_env")
            inherited[name] = from_shell(name, os.environ, "env-params.inherit_env")
        return {**inherited, **resolved(self._parameters.env, os.environ)}


def _keep(root: str, label: SandboxLabel) -> None:
    """Under another name the keeper does not remove it; what runs inside ends all the same."""
    kept = f"{root}-kept"
    try:
        os.rename(root, kept)  # noqa: PTH104
    except OSError as error:
        _log.warning("the sandbox of %s could not be kept: %s", label.attempt, error)
    else:
        _log.warning("kept the %s sandbox of %s: cd %s/work", label.purpose, label.attempt, kept)


def _started(root: str, label: SandboxLabel) -> KeeperLink:
    owner = {
        "schema_version": 1,
        "run_id": label.run_id,
        "task_id": label.attempt.task_id,
        "attempt": label.attempt.index,
        "physical": label.attempt.physical,
        "purpose": label.purpose,
        "pid": os.getpid(),
    }
    try:
        return KeeperLink.start(root, json.dumps(owner))
    except OSError as error:
        raise _start_failure(error) from error


def _start_failure(error: OSError) -> AgentCompassError:
    full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    return AgentCompassError(
        Code.ENVIRONMENT_DISK_FULL if full else Code.ENVIRONMENT_START,
        f"no workspace can be made: {error}",
    )


def _own_variables(root: str, shell: str, user: str) -> dict[str, str]:
    return {
        **QUIET_COMMANDS,
        "PATH": _search_path(os.environ.get("PATH", os.defpath)),
        "HOME": f"{root}/home",
        "TMPDIR": f"{root}/tmp",
        "SHELL": shell,
        "USER": user,
        "LOGNAME": user,
        "GIT_CEILING_DIRECTORIES": root,  # a repository around temp_dir is none of theirs
    }


def _search_path(path: str) -> str:
    """PATH without our own virtual environment: `pip install` inside must not change it."""
    if sys.prefix == sys.base_prefix:
        return path
    ours = os.path.realpath(Path(sys.prefix, "bin"))
    kept = [part for part in path.split(os.pathsep) if part and os.path.realpath(part) != ours]
    path = os.pathsep.join(kept) or os.defpath
    if shutil.which("python3", path=path) is None:
        path = os.pathsep.join((path, str(Path(sys.base_prefix, "bin"))))
    return path


def _user_name() -> str:
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:  # a container started with a bare number
        return str(os.getuid())


def _short(identifier: str) -> str:
    """At most 16 characters that are safe in a path; the end of an id is what differs."""
    return re.sub(r"[^A-Za-z0-9_.]+", "-", identifier)[-16:].strip("-.") or "x"


COMPONENT = Component(version="1", create=HostProcess, parameters=HostProcessParameters)
