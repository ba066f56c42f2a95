"""Calls to Daytona: each with a deadline of ours, repeated while the failure may pass.

Only what is safe to make twice comes here: creating goes by name, commands by id.
"""

import asyncio
import random
import re
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import TypeVar

from agentcompass.components.contracts.errors import AgentCompassError, Code

CALL_SECONDS = 30.0
"""One call without an answer is given up after this long, and made again."""
PATIENCE_SECONDS = 120.0
"""How long a failure that may pass is waited out."""
_SLOWEST_BYTES_A_SECOND = 100_000
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.25, 10.0
_TRANSIENT = {408, 425, 429, 500, 502, 503, 504}
_LONGEST_DETAIL = 300

T = TypeVar("T")


async def call(
    work: Callable[[], Awaitable[T]],
    *,
    call_seconds: float | None = None,
    patience_seconds: float | None = None,
) -> T:
    """Raises the last failure (TimeoutError: no answer) once patience ends, or one that stays."""
    give_up = time.monotonic() + (patience_seconds or PATIENCE_SECONDS)
    attempt = 0
    while True:
        try:
            async with asyncio.timeout(call_seconds or CALL_SECONDS):
                return await work()
        except Exception as error:  # the SDK raises its own, aiohttp's and httpx's
            if not transient(error):
                raise
            pause = pause_seconds(error, attempt)
            if time.monotonic() + pause > give_up:
                raise
        await asyncio.sleep(pause)
        attempt += 1


def transfer_seconds(size: int) -> float:
    """For a call that carries so many bytes."""
    return CALL_SECONDS + size / _SLOWEST_BYTES_A_SECOND


def transient(error: BaseException) -> bool:
    if isinstance(error, AgentCompassError):
        return False
    status = status_of(error)
    if status is not None:
        return status in _TRANSIENT
    return any(
        isinstance(one, ConnectionError | TimeoutError)
        or type(one).__module__.startswith(("aiohttp.", "httpx"))
        or type(one).__name__.startswith("DaytonaConnection")
        for one in _chain(error)
    )


def pause_seconds(error: BaseException, attempt: int) -> float:
    """What the server asks for, else a growing one."""
    asked = _retry_after(error)
    if asked is not None:
        return asked + random.uniform(0, 0.1)
    longest: float = min(_LONGEST_PAUSE_SECONDS, _FIRST_PAUSE_SECONDS * 2**attempt)
    return longest * random.uniform(0.5, 1)


def status_of(error: BaseException) -> int | None:
    """The HTTP status behind a failure; None where there was no answer."""
    for one in _chain(error):
        for name in ("status_code", "status"):
            if isinstance(status := getattr(one, name, None), int) and status >= 400:
                return status
    return None


def refused_key() -> AgentCompassError:
    return AgentCompassError(
        Code.ENVIRONMENT_START,
        "Daytona refused the key in DAYTONA_API_KEY; make a new one at "
        "https://app.daytona.io/dashboard/keys (or set DAYTONA_API_URL to the API it is for)",
    )


def one_line(error: BaseException) -> str:
    text = str(error) or ("no answer in time" if isinstance(error, TimeoutError) else repr(error))
    text = re.sub(r"\s+", " ", text).strip()
    return text if len(text) <= _LONGEST_DETAIL else f"{text[:_LONGEST_DETAIL]}…"


def _retry_after(error: BaseException) -> float | None:
    """From `Retry-After` or `Retry-After-<kind>`, in seconds."""
    for one in _chain(error):
        for name, value in dict(getattr(one, "headers", None) or {}).items():
            if str(name).lower().startswith("retry-after"):
                try:
                    return max(0.0, float(value))
                except ValueError:
                    continue  # a date: Daytona sends seconds
    return None


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__
