"""A connection to Modal of our own, shared by the sandboxes open at the time."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from agentcompass.components.environments._modal.errors import CALL_SECONDS, within

if TYPE_CHECKING:
    import modal

HOW_TO_LOG_IN = "run `modal token new`, or set MODAL_TOKEN_ID and MODAL_TOKEN_SECRET"


class SharedClient:
    """The SDK's own shared client would stay open, and be seen by others in this process."""

    def __init__(self) -> None:
        self._opening: asyncio.Task[modal.Client] | None = None
        self._users = 0

    @asynccontextmanager
    async def use(self, seconds: float = CALL_SECONDS) -> "AsyncIterator[modal.Client]":
        """Connects for the first; the last one out closes. Raises what the SDK raises, or
        TimeoutError."""
        self._users += 1
        try:
            if self._opening is None or _failed(self._opening):
                self._opening = asyncio.create_task(_connected())
            yield await within(seconds, asyncio.shield(self._opening))
        finally:
            self._users -= 1
            if self._users == 0:
                opening, self._opening = self._opening, None
                if opening is not None:
                    await _closed(opening)


async def _connected() -> "modal.Client":
    import modal
    from modal.config import config

    found: dict[str, Any] = {
        name: config.get(name)
        for name in (
            *("token_id", "token_secret", "oauth_refresh_token"),
            *("oauth_client_id", "oauth_client_secret", "oauth_jwt_key"),
        )
    }
    if found["token_id"] and found["token_secret"]:
        return await modal.Client.from_credentials.aio(found["token_id"], found["token_secret"])
    if found["oauth_refresh_token"] and found["oauth_client_id"]:
        return await modal.Client.from_oauth_credentials.aio(
            found["oauth_refresh_token"],
            oauth_client_id=found["oauth_client_id"],
            oauth_client_secret=found["oauth_client_secret"],
            oauth_jwt_key=found["oauth_jwt_key"],
        )
    if os.environ.get("MODAL_IS_REMOTE") == "1":  # inside one of Modal's own containers
        return await modal.Client.from_env.aio()
    raise modal.exception.AuthError(f"no credentials: {HOW_TO_LOG_IN}")


def _failed(opening: "asyncio.Task[modal.Client]") -> bool:
    return opening.done() and (opening.cancelled() or opening.exception() is not None)


async def _closed(opening: "asyncio.Task[modal.Client]") -> None:
    if not opening.done():
        opening.cancel()
    elif not _failed(opening):
        # A connection that will not close is no reason to hold anybody up.
        await asyncio.wait({asyncio.create_task(opening.result().close.aio())}, timeout=5)
