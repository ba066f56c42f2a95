"""Making and removing Daytona sandboxes, so that none is left over and none is made twice.

Creating goes by a unique name: after a call whose end we do not know, the name tells whether
there is a sandbox.
"""

import asyncio
import logging
import re
import time
from typing import TYPE_CHECKING

from agentcompass.components.contracts.errors import AgentCompassError, Code
from agentcompass.components.contracts.waiting import to_its_end
from agentcompass.components.environments._daytona import calls
from agentcompass.components.environments._daytona.labels import OURS

if TYPE_CHECKING:
    from daytona import (
        AsyncDaytona,
        AsyncSandbox,
        CreateSandboxFromImageParams,
        CreateSandboxFromSnapshotParams,
    )

    Wanted = CreateSandboxFromImageParams | CreateSandboxFromSnapshotParams

_log = logging.getLogger(__name__)

CREATE_SECONDS = 60.0
"""For one creating call; a sandbox that takes longer is then waited for by its name."""
QUOTA_SECONDS = 60.0
"""Waited for a free place once no sandbox of ours is left that could make one."""
QUOTA_LONGEST_SECONDS = 1800.0
"""… and in all."""
LATE_SECONDS = 10.0
"""How long a creating call that we gave up is watched for a sandbox after all."""
DELETE_SECONDS = 60.0
_POLL_SECONDS, _QUOTA_POLL_SECONDS = 0.5, 5.0

_FAILED = {"error", "build_failed", "destroyed", "destroying", "stopped", "archived", "paused"}
_QUOTA = re.compile(
    r"limit exceeded|quota|exceed\w*.{0,40}limit|limit.{0,40}(reached|exceed)|maximum allowed", re.I
)
_PERMANENT = re.compile(r"per[- ]sandbox|suspended|billing|credit|payment|verif", re.I)


async def create(client: "AsyncDaytona", wanted: "Wanted", start_seconds: float) -> "AsyncSandbox":
    """`start_seconds`: for building or pulling the image and starting.

    Raises `environment.start`; cancelled or failed, it leaves nothing.
    """
    name = wanted.name or ""
    try:
        sandbox = await _asked_for(client, wanted)
        return await _running(client, sandbox, start_seconds)
    except BaseException as error:
        late = isinstance(error, asyncio.CancelledError | TimeoutError)
        await to_its_end(_undo(client, name, LATE_SECONDS if late else 0.0))
        if not isinstance(error, Exception) or isinstance(error, AgentCompassError):
            raise
        raise start_failure(error) from error


async def delete(client: "AsyncDaytona", sandbox_id: str) -> bool:
    """True when nothing is left of it (a name does as well); False: it would not go in time."""
    give_up = time.monotonic() + DELETE_SECONDS
    attempt = 0
    while time.monotonic() < give_up:
        try:
            async with asyncio.timeout(calls.CALL_SECONDS):
                sandbox = await client.get(sandbox_id)
                if _state(sandbox) == "destroyed":
                    return True
                if _state(sandbox) != "destroying":
                    await sandbox.delete(timeout=0)
        except Exception as error:  # whatever the SDK and its transports raise
            status = calls.status_of(error)
            if status == 404:
                return True
            # 409, and 400 from older servers: its state is just changing
            if not calls.transient(error) and status not in (400, 409):
                _log.debug("deleting %s: %s", sandbox_id, calls.one_line(error))
                return False
            pause = calls.pause_seconds(error, attempt)
        else:
            pause = min(2.0, 0.1 * 2**attempt)
        attempt += 1
        await asyncio.sleep(max(0.0, min(pause, give_up - time.monotonic())))
    return False


async def find(client: "AsyncDaytona", name: str) -> "AsyncSandbox | None":
    try:
        return await calls.call(lambda: client.get(name))
    except Exception as error:  # whatever the SDK and its transports raise
        if calls.status_of(error) == 404:
            return None
        raise


def start_failure(error: Exception) -> AgentCompassError:
    detail = calls.one_line(error)
    if calls.status_of(error) == 401:
        return calls.refused_key()
    if _is_quota(error):
        advice = (
            "lower the task's resources"
            if re.search(r"per[- ]sandbox", detail, re.I)
            else "lower --provider-limit daytona=N, free what `agentcompass env list` shows, or "
            "raise the limits at https://app.daytona.io/dashboard/limits"
        )
        return AgentCompassError(
            Code.ENVIRONMENT_START, f"the Daytona account's quota is used up ({detail}); {advice}"
        )
    return AgentCompassError(Code.ENVIRONMENT_START, f"Daytona did not open the sandbox: {detail}")


async def _asked_for(client: "AsyncDaytona", wanted: "Wanted") -> "AsyncSandbox":
    """Created, though perhaps not started."""
    name = wanted.name or ""
    started = time.monotonic()
    refused_since: float | None = None
    failing_since: float | None = None
    attempt = 0
    while True:
        try:
            async with asyncio.timeout(CREATE_SECONDS):
                return await client.create(wanted, timeout=0)
        except Exception as error:  # whatever the SDK and its transports raise
            now = time.monotonic()
            if _is_quota(error):
                if _PERMANENT.search(str(error)):
                    raise
                refused_since = refused_since or now
                if await _others_of_ours(client):
                    refused_since = now  # its end makes room
                waited = now - refused_since
                if waited > QUOTA_SECONDS or now - started > QUOTA_LONGEST_SECONDS:
                    raise
                _log.info("the Daytona account is full; waiting for a place")
                pause = _QUOTA_POLL_SECONDS
            else:
                status = calls.status_of(error)
                known = calls.transient(error) or status == 409
                # It may be there: the answer got lost, or its start fails or takes long.
                unsure = status != 429 and (known or status is None)
                if unsure and (sandbox := await find(client, name)) is not None:
                    return sandbox
                if not known:
                    raise
                failing_since = failing_since or now
                pause = calls.pause_seconds(error, attempt)
                if now + pause - failing_since > calls.PATIENCE_SECONDS:
                    raise
                attempt += 1
        await asyncio.sleep(pause)


async def _running(
    client: "AsyncDaytona", sandbox: "AsyncSandbox", start_seconds: float
) -> "AsyncSandbox":
    give_up = time.monotonic() + start_seconds
    while _state(sandbox) != "started":
        if _state(sandbox) in _FAILED:
            reason = sandbox.error_reason or f"its state is {_state(sandbox)}"
            raise AgentCompassError(
                Code.ENVIRONMENT_START,
                f"Daytona did not open the sandbox: {calls.one_line(ValueError(reason))}",
            )
        if time.monotonic() > give_up:
            raise AgentCompassError(
                Code.ENVIRONMENT_START,
                f"Daytona did not start the sandbox within {start_seconds:.0f} s "
                f"(its state is {_state(sandbox)})",
            )
        await asyncio.sleep(_POLL_SECONDS)
        found = await find(client, sandbox.id)
        if found is None:
            raise AgentCompassError(
                Code.ENVIRONMENT_START, "the Daytona sandbox vanished while it started"
            )
        sandbox = found
    return sandbox


async def _undo(client: "AsyncDaytona", name: str, watch_seconds: float) -> None:
    """Delete what a failed creation may have left, or may yet leave."""
    give_up = time.monotonic() + watch_seconds
    while True:
        try:
            there = await find(client, name) is not None
        except Exception as error:  # whatever the SDK and its transports raise
            _log.warning("Daytona cannot be asked about %s: %s", name, calls.one_line(error))
            return
        if there:
            if not await delete(client, name):
                _log.warning(
                    "the sandbox %s, which did not open, could not be deleted; "
                    "see `agentcompass env list`",
                    name,
                )
            return
        if time.monotonic() >= give_up:
            return
        await asyncio.sleep(_POLL_SECONDS)


async def _others_of_ours(client: "AsyncDaytona") -> bool:
    from daytona import ListSandboxesQuery

    async def ask() -> bool:
        async for _ in client.list(ListSandboxesQuery(labels=dict(OURS), limit=1)):
            return True
        return False

    return await calls.call(ask)


def _is_quota(error: BaseException) -> bool:
    status = calls.status_of(error)
    if status is None or status >= 500 or status in (401, 404):
        return False
    text = str(error)
    return bool(_QUOTA.search(text)) and not re.search(r"rate.?limit", text, re.I)


def _state(sandbox: "AsyncSandbox") -> str:
    return str(getattr(sandbox.state, "value", sandbox.state))
