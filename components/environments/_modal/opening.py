"""Making a sandbox exactly once, whatever gets lost on the way, and unmaking it.

The name is new for each opening. A creation whose answer was lost is repeated under it, and the
refusal because the name is taken says that the first one worked.
"""

import asyncio
import atexit
import logging
import threading
import time
from collections.abc import Coroutine, Mapping
from concurrent import futures
from functools import cache
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from agentcompass.components.environments._modal.errors import (
    Trouble,
    asked_delay,
    delays,
    persistently,
    start_failure,
    trouble,
    within,
)

if TYPE_CHECKING:
    import modal

_log = logging.getLogger(__name__)

CREATE_SECONDS = 120.0
"""For one try: the SDK may wait inside for as long as the server asks."""
_TRIES = 6
_POLL_SECONDS = 5.0
"""At most, between two tries: a place that was given back shall not stay empty for long."""
_UNMAKE_SECONDS = 6.0
_UNMAKE_TRIES = 4
"""Together under half a minute: a run that is interrupted waits for it."""

_LAST_SECONDS = 30.0

KEEP_OPEN = ("/bin/sh", "-c", "trap 'exit 0' TERM; while :; do sleep 3600 & wait; done")

T = TypeVar("T")


class Creation(NamedTuple):
    client: "modal.Client"
    app: "modal.App"
    name: str
    arguments: Mapping[str, Any]
    """Of Sandbox.create, beside those above."""


async def create(creation: Creation, quota_wait_seconds: float) -> "modal.Sandbox":
    """Raises environment.start or environment.disk_full; then, and when cancelled, no sandbox
    stays."""
    try:
        return await _create(creation, quota_wait_seconds)
    except BaseException:
        await to_its_end(_unmake_by_name(creation))
        raise


async def _create(creation: Creation, quota_wait_seconds: float) -> "modal.Sandbox":
    started = time.monotonic()
    failures = 0
    waits = delays(_POLL_SECONDS)
    while True:
        try:
            return await _created_or_found(creation)
        except Exception as error:  # sorted by `trouble`; what it does not know rises
            kind = trouble(error)
            if kind is None:
                raise
            failures += kind is not Trouble.LIMITED
            waited = time.monotonic() - started
            tired = waited > quota_wait_seconds if kind is Trouble.LIMITED else failures >= _TRIES
            if kind not in (Trouble.LIMITED, Trouble.TRANSIENT, Trouble.GONE) or tired:
                raise start_failure(error) from error
            await asyncio.sleep(max(next(waits), asked_delay(error)))


async def _created_or_found(creation: Creation) -> "modal.Sandbox":
    import modal

    try:
        return await within(
            CREATE_SECONDS,
            modal.Sandbox.create.aio(
                *KEEP_OPEN,
                app=creation.app,
                name=creation.name,
                client=creation.client,
                **creation.arguments,
            ),
        )
    except modal.exception.AlreadyExistsError:  # an earlier try of ours worked
        return await within(_UNMAKE_SECONDS, _by_name(creation))


async def _by_name(creation: Creation) -> "modal.Sandbox":
    import modal

    name = creation.app.name or ""
    return await modal.Sandbox.from_name.aio(name, creation.name, client=creation.client)


async def _unmake_by_name(creation: Creation) -> None:
    """A creation that was cut may still be under way: look for it a second time."""
    for pause in (0.0, 2.0):
        await asyncio.sleep(pause)
        try:
            sandbox = await persistently(
                lambda: _by_name(creation), seconds=_UNMAKE_SECONDS, in_all=_UNMAKE_SECONDS
            )
        except Exception as error:  # whatever it is, what was asked for failed already
            if trouble(error) is not Trouble.GONE:
                _log.warning(
                    "modal: sandbox %s may be left over (%s); it ends by itself",
                    creation.name,
                    error,
                )
                return
        else:
            await unmake(sandbox)
            return


async def unmake(sandbox: "modal.Sandbox") -> bool:
    """True once the server took the order, or knows no such sandbox. Bounded; a failure is
    reported here."""
    try:
        await _terminated(sandbox)
    except Exception as error:  # reported: the result of the attempt stands
        _log.warning(
            "modal: sandbox %s could not be ended (%s); `agentcompass env clean` tries again, "
            "and it ends by itself with its lifetime",
            sandbox.object_id,
            error,
        )
        return False
    return True


async def _terminated(sandbox: "modal.Sandbox") -> None:
    for delay in (*islice(delays(), _UNMAKE_TRIES - 1), None):
        try:
            await within(_UNMAKE_SECONDS, sandbox.terminate.aio())
            return
        except Exception as error:  # sorted by `trouble`; the last one rises
            if trouble(error) is Trouble.GONE and _is_unknown(error):
                return
            if delay is None or trouble(error) is Trouble.REFUSED_US:
                raise
            await asyncio.sleep(delay)


def _is_unknown(error: BaseException) -> bool:
    """A conflict (it is starting) is no proof that it is gone."""
    import modal

    return isinstance(error, modal.exception.NotFoundError)


async def to_its_end(work: Coroutine[Any, Any, T]) -> T:
    """Await what must not be cut short; a cancellation that came meanwhile rises after it.

    It runs in a loop of its own: a loop that closes, as on Ctrl-C, cancels every task it has. The
    process itself ends after it, too.
    """
    future = asyncio.run_coroutine_threadsafe(work, _endings())
    _under_way.add(future)
    future.add_done_callback(_under_way.discard)
    cancelled: asyncio.CancelledError | None = None
    while not future.done():
        try:
            await asyncio.wait([asyncio.wrap_future(future)])
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled
    return future.result()


_under_way: set["futures.Future[Any]"] = set()
_open: set["modal.Sandbox"] = set()


@cache
def _endings() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="modal-endings", daemon=True).start()
    atexit.register(_at_exit)
    return loop


def guard(sandbox: "modal.Sandbox") -> None:
    """End it at the latest when this process ends: after a second Ctrl-C no task gets so far."""
    _endings()
    _open.add(sandbox)


def release(sandbox: "modal.Sandbox") -> None:
    _open.discard(sandbox)


def _at_exit() -> None:
    left = {asyncio.run_coroutine_threadsafe(unmake(each), _endings()) for each in _open}
    futures.wait({*_under_way, *left}, timeout=_LAST_SECONDS)
