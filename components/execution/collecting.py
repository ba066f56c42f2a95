"""What the agent left, taken out of its sandbox; and what becomes of a sandbox it has wrecked."""

import asyncio
import errno
import re

from agentcompass.components.contracts.attempt import Submission
from agentcompass.components.contracts.errors import AgentCompassError, Code
from agentcompass.components.contracts.protocols import ArtifactDesk, Benchmark
from agentcompass.components.contracts.sandbox import Environment
from agentcompass.components.contracts.task import Task
from agentcompass.components.execution.deadlines import within

PROBE_SECONDS = 30.0
_NO_PROGRAM = re.compile(r"exit 12[67]|not found|permission denied|cannot fork|is gone", re.I)
"""Of a script that worked before the agent came: what it needs has been taken away."""

_PATH_ERRORS = (FileNotFoundError, NotADirectoryError, IsADirectoryError, PermissionError)
_PATH_ERROR_NUMBERS = frozenset([errno.ELOOP, errno.ENAMETOOLONG, errno.ENOSYS])
"""Links in a circle; a path too long; the programs are gone with which a provider reads it."""


async def collect(
    benchmark: Benchmark,
    task: Task,
    env: Environment | None,
    submission: Submission,
    desk: ArtifactDesk,
    seconds: float | None,
) -> Submission:
    """The submission completed by the benchmark, within its deadline.

    The task was prepared by the same means before the agent came. If they fail now in a sandbox
    that still runs, the agent has broken them: it left nothing, and that is graded. Every other
    failure rises, and the attempt has no score.
    """
    try:
        collecting = benchmark.collect(task, env, submission, desk)
        left = await within(seconds, Code.ARTIFACT_TIMEOUT, collecting)
        return checked(left, "the benchmark's collect")
    except OSError as error:
        if env is None or not _of_a_path_inside(error, env):
            raise
        reason = str(error)
    except AgentCompassError as error:
        if env is None or not await _wrecked_by_agent(env, error):
            raise
        reason = str(error)
    desk.note(Code.SUBMISSION_EMPTY, f"what the agent left cannot be read: {reason}")
    return submission


def checked(submission: object, made_by: str) -> Submission:
    """What a plugin returned, if it is a submission; anything else is its fault, told as such
    in the phase that it was made in."""
    if not isinstance(submission, Submission):
        kind = type(submission).__name__
        raise TypeError(f"{made_by} returned {kind!r}, not a Submission")
    return submission


def _of_a_path_inside(error: OSError, env: Environment) -> bool:
    """What the agent did to a path in its sandbox, not a shortage or a broken connection of ours.

    Providers have codes for their own troubles, a full disk included; so in a sandbox with a disk
    of its own, it is that one that is full.
    """
    if error.errno == errno.ENOSPC:
        return getattr(env, "disk_limited", False)
    return isinstance(error, _PATH_ERRORS) or error.errno in _PATH_ERROR_NUMBERS


async def _wrecked_by_agent(env: Environment, error: AgentCompassError) -> bool:
    match error.code:
        case Code.ARTIFACT_FAILED:
            told = _NO_PROGRAM.search(str(error)) is not None
            return await env.alive() and (told or not await _shell_works(env))
        case Code.ENVIRONMENT_LOST | Code.ARTIFACT_TIMEOUT:
            return await env.alive() and not await _shell_works(env) and await env.alive()
    return False


async def _shell_works(env: Environment) -> bool:
    try:
        async with asyncio.timeout(PROBE_SECONDS):
            said = await env.exec(["/bin/sh", "-c", "echo works"], timeout_seconds=PROBE_SECONDS)
    except (AgentCompassError, TimeoutError):
        return False
    return said.ok and said.stdout == "works\n"
