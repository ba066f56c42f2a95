"""Limits that several runs share: how many attempts of a provider, how often a sandbox opens.

The real ones live at the Prefect API (flows/slots.py, flows/pacing.py); without one, these.
"""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Protocol


class Slots(Protocol):
    def held(self) -> AbstractAsyncContextManager[None]:
        """One slot of the provider for one physical attempt; waits until there is one."""
        ...

    def needs(self, count: int) -> None:
        """At most so many will be asked for at once from now on."""
        ...


class Pace(Protocol):
    async def turn(self) -> None:
        """Wait until a sandbox may be opened."""
        ...


class Unlimited:
    """Satisfies Slots and Pace where nothing is limited."""

    @asynccontextmanager
    async def held(self) -> AsyncIterator[None]:
        yield

    def needs(self, count: int) -> None:
        return None

    async def turn(self) -> None:
        return None
