"""Commands run as plain processes on this machine, each attempt in a private workspace.

With `isolation: none` a command can read and change whatever the user who runs AgentCompass
can, the results included, and end the process that watches it, which makes its attempt one that
does not count. Use it for agents you trust, or on a machine that holds nothing else.

With `isolation: bubblewrap` commands see a file system of their own: the system's programs
and those on PATH, read-only; a workspace, a home and /tmp that start empty; none of this
machine's other files, processes or secrets. While the network policy is `none` they see no
network; under `public` it is this machine's, loopback included. A phase with another policy
ends what still runs. Memory and processes are not limited.

A workspace is a new directory `agentcompass-<run>-<task>-…` (mode 0700) with `work/` (where
commands start), `home/` (HOME) and `tmp/` (TMPDIR). Closing ends every process started inside
and removes it; when AgentCompass itself is killed, the sandbox's keeper process does the same.
A command that removes its workspace, or puts something else in its place, has left nothing.

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
import socket
import sys
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Literal, get_args

from agentcompass.components.configuration.variables import check_name, from_shell, resolved
from agentcompass.components.contracts.attempt import AttemptKey
from agentcompass.components.contracts.errors import AgentCompassError, Code, RequestError
from agentcompass.components.contracts.parameters import EnvironmentParameters
from agentcompass.components.contracts.protocols import Component
from agentcompass.components.contracts.requirements import Requirements, SandboxPhase
from agentcompass.components.contracts.sandbox import (
    Capabilities,
    Environment,
    Leftover,
    SandboxLabel,
)
from agentcompass.components.contracts.user_path import user_path
from agentcompass.components.contracts.waiting import to_its_end
from agentcompass.components.environments._host.bubblewrap import (
    Walls,
    explained,
    network_state,
    walls_plan,
)
from agentcompass.components.environments._host.bubblewrap import variables as isolated_variables
from agentcompass.components.environments._host.bubblewrap_view import USER, refused_workdir
from agentcompass.components.environments._host.ending import MARKER
from agentcompass.components.environments._host.leftovers import (
    KEPT,
    find_leftovers,
    remove_leftover,
)
from agentcompass.components.environments._host.link import KeeperLink
from agentcompass.components.environments._host.sandbox import HostSandbox
from agentcompass.components.environments._quiet_commands import QUIET_COMMANDS

_log = logging.getLogger(__name__)

_OPEN = Capabilities(isolated=False, model_address=True)
_ISOLATED = Capabilities(
    isolated=True,
    workdir=True,
    network=frozenset({"none"}),
    network_phases=True,
    model_address=True,
)


class HostProcessParameters(EnvironmentParameters):
    inherit_env: tuple[str, ...] = ()
    """Names of variables of your shell that commands see too, such as `HTTPS_PROXY`."""
    isolation: Literal["none", "bubblewrap"] = "none"
    """`bubblewrap`: commands cannot reach this machine's files (needs the program `bwrap`)."""
    temp_dir: str | None = None
    """Where workspaces are made; unset: the system's directory for temporary files (TMPDIR)."""


class HostProcess:
    """Satisfies contracts.protocols.EnvironmentProvider."""

    def __init__(self, parameters: HostProcessParameters) -> None:
        self._parameters = parameters
        self._isolated = parameters.isolation == "bubblewrap"
        self.capabilities = _ISOLATED if self._isolated else _OPEN
        self._given_variables()  # an unset variable is refused before anything starts

    async def preflight(self, requirements: Iterable[Requirements]) -> list[str]:
        refused: Counter[str] = Counter()
        problems: set[str] = set()
        for required in requirements:
            if required.workdir is not None and not self._can_give(required.workdir):
                refused[required.workdir] += 1
            try:
                resolved(required.env, os.environ, "requirements.env")
            except RequestError as error:
                problems.add(str(error))
            try:
                self._check_network(required)
            except AgentCompassError as error:
                problems.add(str(error))
        workdirs = [
            f"tasks of this benchmark need the directory {workdir} ({count} of them), which "
            f"host_process cannot give; use {self._another(workdir)}"
            for workdir, count in sorted(refused.items())
        ]
        return [*workdirs, *sorted(problems), *await self._trial()]

    @asynccontextmanager
    async def open(
        self, requirements: Requirements, label: SandboxLabel
    ) -> AsyncIterator[Environment]:
        """Raises `environment.start`, or `environment.disk_full`."""
        if requirements.workdir is not None and not self._can_give(requirements.workdir):
            raise AgentCompassError(
                Code.ENVIRONMENT_START,
                f"host_process cannot give a task the directory {requirements.workdir}; "
                f"use {self._another(requirements.workdir)}",
            )
        self._check_network(requirements)
        root = self._new_root(label)
        sandbox = await self._started(root, label, requirements)
        try:
            try:
                await sandbox.link.made()
            except OSError as error:
                raise _start_failure(error) from error
            except AgentCompassError as error:
                raise explained(error) from error
            yield sandbox
        finally:
            if label.keep:
                _keep(root, label)
            if not await to_its_end(sandbox.close()):
                _log.warning("a sandbox could not be removed completely: %s", root)

    async def _started(
        self, root: str, label: SandboxLabel, requirements: Requirements
    ) -> HostSandbox:
        """Nothing is awaited once it starts: no cancellation can part us from it."""
        shell = shutil.which("bash") or "/bin/sh"
        path = _search_path(os.environ.get("PATH", os.defpath))
        given = {
            **self._given_variables(),
            **resolved(requirements.env, os.environ, "requirements.env"),
        }
        if not self._isolated:
            user = _user_name()
            own = {**_own_variables(root, shell, user, path), **given, MARKER: root}
            return HostSandbox(_linked(root, label), shell, own, user)
        plan = await walls_plan(root, requirements.workdir, requirements.network, path)
        link = _linked(root, label, plan.text)
        sandbox = HostSandbox(
            link,
            shell,
            {**QUIET_COMMANDS, **isolated_variables(shell, path), **given},
            USER,
            workdir=plan.workdir,
            owner=plan.owner,
        )
        sandbox.isolation = Walls(link, plan, sandbox.exec)
        return sandbox

    async def _trial(self) -> list[str]:
        """The honest test: open one."""
        try:
            key = AttemptKey(task_id="preflight", index=1)
            async with self.open(Requirements(), SandboxLabel("check", key, "preflight")):
                return []
        except AgentCompassError as error:
            return [f"host_process: {error}"]

    def _can_give(self, workdir: str) -> bool:
        return self._isolated and not refused_workdir(workdir)

    def _another(self, workdir: str) -> str:
        if self._isolated or refused_workdir(workdir):
            return "--env docker"
        return '--env docker, or --env-params \'{"isolation": "bubblewrap"}\''

    def _check_network(self, requirements: Requirements) -> None:
        """Raises AgentCompassError(environment.start). Without isolation the engine compares
        policies with our capabilities, and may let a run go on without."""
        if self._isolated:
            for phase in get_args(SandboxPhase):
                network_state(requirements.network, phase)

    async def leftovers(self) -> tuple[Leftover, ...]:
        """Workspaces of this user that no process keeps any more."""
        return await asyncio.to_thread(find_leftovers, self._parent())

    async def remove_leftover(self, leftover: Leftover) -> bool:
        return await asyncio.to_thread(remove_leftover, leftover)

    def _parent(self) -> Path:
        try:
            place = self._parameters.temp_dir or tempfile.gettempdir()
        except OSError as error:  # no directory for temporary files is writable
            raise _start_failure(error) from error
        return user_path(place, "env-params.temp_dir")

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
        return inherited


def _keep(root: str, label: SandboxLabel) -> None:
    """Under another name the keeper does not remove it; what runs inside ends all the same."""
    kept = f"{root}{KEPT}"
    try:
        os.rename(root, kept)  # noqa: PTH104
    except OSError as error:
        _log.warning("the sandbox of %s could not be kept: %s", label.attempt, error)
    else:
        _log.warning("kept the %s sandbox of %s: cd %s/work", label.purpose, label.attempt, kept)


def _linked(root: str, label: SandboxLabel, isolation: str | None = None) -> KeeperLink:
    owner = {
        "schema_version": 1,
        "run_id": label.run_id,
        "task_id": label.attempt.task_id,
        "attempt": label.attempt.index,
        "physical": label.attempt.physical,
        "purpose": label.purpose,
        "pid": os.getpid(),
        "host": socket.gethostname(),
    }
    try:
        return KeeperLink.start(root, json.dumps(owner), isolation)
    except OSError as error:
        raise _start_failure(error) from error


def _start_failure(error: OSError) -> AgentCompassError:
    full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    return AgentCompassError(
        Code.ENVIRONMENT_DISK_FULL if full else Code.ENVIRONMENT_START,
        f"no workspace can be made: {error}",
    )


def _own_variables(root: str, shell: str, user: str, path: str) -> dict[str, str]:
    return {
        **QUIET_COMMANDS,
        "PATH": path,
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
