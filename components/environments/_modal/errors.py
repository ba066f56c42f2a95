"""What an error of the `modal` SDK means for us, and calls that end in their time.

The SDK retries most calls three to ten times within some seconds (connection lost, UNAVAILABLE,
INTERNAL, …), waits as long as the server says where it says so, and never retries a bare
RESOURCE_EXHAUSTED. An unreachable server takes it a minute to notice: hence our own deadlines.
"""

import asyncio
import random
import re
import time
from collections.abc import Awaitable, Callable, Iterator
from enum import Enum
from itertools import islice
from typing import Any, TypeVar

from agentcompass.components.contracts.errors import AgentCompassError, Code

CALL_SECONDS = 60.0
"""One call to the control plane or the worker, the SDK's own retries included."""
_TRIES = 5
_FIRST_DELAY_SECONDS = 0.5
_MOST_DELAY_SECONDS = 15.0

_DISK = re.compile(r"\b(disk|storage)\b", re.IGNORECASE)
_ACCOUNT = re.compile(
    r"\b(billing|payment|spend|budget|credits?|plan|upgrade|suspended|disabled)\b", re.IGNORECASE
)

T = TypeVar("T")


class Trouble(Enum):
    TRANSIENT = "transient"  # the same call may work in a moment
    LIMITED = "limited"  # too fast, or too many at once: it works later
    QUOTA = "quota"  # the account has no more of something: waiting does not help
    DISK = "disk"  # as QUOTA, and it is storage
    GONE = "gone"  # what was asked for is not there (any more)
    TAKEN = "taken"  # its name is in use
    REFUSED_US = "refused us"  # credentials
    REFUSED = "refused"  # the request itself


def trouble(error: BaseException) -> Trouble | None:
    """None: not an error of the SDK, its server, or the way to it."""
    from grpclib.exceptions import StreamTerminatedError
    from h2.exceptions import ProtocolError
    from modal import exception as sdk

    match error:
        case sdk.ResourceExhaustedError():
            if _DISK.search(str(error)):
                return Trouble.DISK
            return Trouble.QUOTA if _ACCOUNT.search(str(error)) else Trouble.LIMITED
        case sdk.AlreadyExistsError():
            return Trouble.TAKEN
        case sdk.AuthError() | sdk.PermissionDeniedError():
            return Trouble.REFUSED_US
        case (
            sdk.NotFoundError()
            | sdk.ConflictError()
            | sdk.SandboxTerminatedError()
            | sdk.SandboxTimeoutError()
            | sdk.ClientClosed()
        ):
            return Trouble.GONE
        case (
            sdk.ServiceError()
            | sdk.InternalError()
            | sdk.ConnectionError()
            | sdk.TimeoutError()
            | sdk.InternalFailure()
            | StreamTerminatedError()
            | ProtocolError()
            | OSError()  # ConnectionError and TimeoutError are among them
        ):
            return Trouble.TRANSIENT
        case sdk.Error():
            return Trouble.REFUSED
    return None


async def within(seconds: float, work: Awaitable[T]) -> T:
    """The work's result. Past its time it is cancelled and left behind: TimeoutError."""
    task = asyncio.ensure_future(work)
    try:
        done, _ = await asyncio.wait({task}, timeout=max(0.0, seconds))
    except asyncio.CancelledError:
        _leave(task)
        raise
    if not done:
        _leave(task)
        raise TimeoutError(f"no answer within {seconds:g} s")
    return task.result()


def _leave(task: "asyncio.Future[Any]") -> None:
    def retrieve(ended: "asyncio.Future[Any]") -> None:
        if not ended.cancelled():
            ended.exception()  # else asyncio reports it as lost

    task.add_done_callback(retrieve)
    task.cancel()


async def persistently(
    call: Callable[[], Awaitable[T]],
    *,
    seconds: float = CALL_SECONDS,
    in_all: float = 4 * CALL_SECONDS,
) -> T:
    """A call that may be repeated: up to five times, each with its own deadline."""
    started = time.monotonic()
    for delay in islice(delays(), _TRIES - 1):
        try:
            return await within(seconds, call())
        except Exception as error:  # sorted by `trouble`; what it does not know rises
            if trouble(error) not in (Trouble.TRANSIENT, Trouble.LIMITED):
                raise
            if time.monotonic() - started + delay > in_all:
                raise
            await asyncio.sleep(max(delay, asked_delay(error)))
    return await within(seconds, call())


def delays(most_seconds: float = _MOST_DELAY_SECONDS) -> Iterator[float]:
    """Doubling, with some chance in it: many that were refused do not come back at once."""
    step = _FIRST_DELAY_SECONDS
    while True:
        yield step * random.uniform(0.7, 1.3)
        step = min(2 * step, most_seconds)


def asked_delay(error: BaseException) -> float:
    """Seconds the server asked to wait; 0 if it did not."""
    for detail in getattr(error, "_grpc_details", None) or ():
        if seconds := getattr(detail, "retry_after_secs", None):
            return float(seconds)
    return 0.0


def start_failure(error: BaseException) -> AgentCompassError:
    """Why no sandbox opened, with what to do about it."""
    said = one_line(error)
    match trouble(error):
        case Trouble.DISK:
            return AgentCompassError(
                Code.ENVIRONMENT_DISK_FULL,
                f"modal: the account's storage quota is used up ({said}); free some or raise it",
            )
        case Trouble.QUOTA:
            return AgentCompassError(
                Code.ENVIRONMENT_START,
                f"modal: the account's quota is used up ({said}); raise it in Modal's settings",
            )
        case Trouble.LIMITED:
            return AgentCompassError(
                Code.ENVIRONMENT_START,
                f"modal: still refused after waiting ({said}); lower --provider-limit modal=N "
                "or --env-open-qps modal=N",
            )
        case Trouble.REFUSED_US:
            return AgentCompassError(
                Code.ENVIRONMENT_START, f"modal: the credentials were refused ({said})"
            )
        case Trouble.TRANSIENT:
            return AgentCompassError(
                Code.ENVIRONMENT_START, f"modal: the service does not answer as it should ({said})"
            )
    return AgentCompassError(Code.ENVIRONMENT_START, f"modal: {said}")


def lost(why: str) -> AgentCompassError:
    return AgentCompassError(Code.ENVIRONMENT_LOST, f"modal: {why}")


def one_line(error: BaseException) -> str:
    return " ".join(str(error).split())[:300] or type(error).__name__
