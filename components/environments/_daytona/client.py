"""The Daytona SDK's client: imported only when it is needed, one per event loop while in use."""

import asyncio
import os
import warnings
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

from agentcompass.components.contracts.errors import AgentCompassError, Code

if TYPE_CHECKING:
    from daytona import AsyncDaytona

KEY = "DAYTONA_API_KEY"
DEFAULT_URL = "https://app.daytona.io/api"
_CLOSE_SECONDS = 5.0


class DaytonaClients:
    def __init__(self, api_url: str | None, target: str | None) -> None:
        self.api_url = api_url or os.environ.get("DAYTONA_API_URL") or DEFAULT_URL
        self._target = target or os.environ.get("DAYTONA_TARGET") or None
        self._open: dict[asyncio.AbstractEventLoop, tuple[AsyncDaytona, int]] = {}

    @asynccontextmanager
    async def client(self) -> AsyncIterator["AsyncDaytona"]:
        """Raises `environment.start` without the SDK or a key."""
        await asyncio.to_thread(load)
        loop = asyncio.get_running_loop()
        client, users = self._open.get(loop) or (self._made(), 0)
        self._open[loop] = (client, users + 1)
        try:
            yield client
        finally:
            client, users = self._open[loop]
            self._open[loop] = (client, users - 1)
            if users == 1:
                del self._open[loop]
                with suppress(TimeoutError):
                    async with asyncio.timeout(_CLOSE_SECONDS):
                        await client.close()  # type: ignore[no-untyped-call]

    def _made(self) -> "AsyncDaytona":
        from daytona import AsyncDaytona, DaytonaConfig

        key = os.environ.get(KEY, "").strip()
        if not key:
            raise AgentCompassError(Code.ENVIRONMENT_START, missing_key())
        with warnings.catch_warnings():
            # Its events need a second connection, whose loss it answers by polling all the same.
            warnings.simplefilter("ignore", DeprecationWarning)
            return AsyncDaytona(
                DaytonaConfig(
                    api_key=key,
                    api_url=self.api_url,
                    target=self._target,
                    connection_pool_maxsize=None,
                    use_deprecated_polling=True,
                )
            )


def load() -> None:
    """Seconds of work the first time: not for the event loop. Raises `environment.start`."""
    try:
        from daytona import (  # noqa: F401 (the SDK's own names are imported at use)
            AsyncDaytona,
            CreateSandboxFromImageParams,
            DaytonaConfig,
            FileUpload,
            Image,
            ListSandboxesQuery,
        )
    except ImportError as error:
        raise AgentCompassError(
            Code.ENVIRONMENT_START,
            f"the Daytona SDK cannot be imported ({error}); pip install 'daytona>=0.226,<0.227'",
        ) from error


def missing_key() -> str:
    return f"{KEY} is not set; export {KEY}=… (https://app.daytona.io/dashboard/keys)"
