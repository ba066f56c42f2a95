"""Sandboxes of ours at Modal whose owner is dead, or that were kept."""

import asyncio
from typing import TYPE_CHECKING

from agentcompass.components.contracts.sandbox import Leftover
from agentcompass.components.environments._modal import labels as _labels
from agentcompass.components.environments._modal.errors import (
    Trouble,
    persistently,
    start_failure,
    trouble,
)
from agentcompass.components.environments._modal.opening import unmake

if TYPE_CHECKING:
    import modal

_AT_ONCE = 16


async def find(client: "modal.Client", app_name: str) -> tuple[Leftover, ...]:
    """Raises environment.start if Modal cannot be asked."""
    try:
        sandboxes = await persistently(lambda: _ours(client, app_name))
        at_once = asyncio.Semaphore(_AT_ONCE)

        async def look(sandbox: "modal.Sandbox") -> Leftover | None:
            async with at_once:
                tags = await _tags(sandbox)
            return _labels.leftover(sandbox.object_id, tags) if tags else None

        found = await asyncio.gather(*map(look, sandboxes))
    except Exception as error:  # sorted by `trouble`; what it does not know rises
        if trouble(error) is None:
            raise
        raise start_failure(error) from error
    return tuple(each for each in found if each is not None)


async def remove(client: "modal.Client", leftover: Leftover) -> bool:
    import modal

    try:
        sandbox = await persistently(lambda: modal.Sandbox.from_id.aio(leftover.id, client=client))
    except Exception as error:  # sorted by `trouble`; what it does not know rises
        match trouble(error):
            case Trouble.GONE:
                return True
            case None:
                raise
        raise start_failure(error) from error
    return await unmake(sandbox)


async def _ours(client: "modal.Client", app_name: str) -> "list[modal.Sandbox]":
    import modal

    try:
        app = await modal.App.lookup.aio(app_name, client=client)
    except modal.exception.NotFoundError:
        return []
    listing = modal.Sandbox.list.aio(app_id=app.app_id, tags=_labels.mine(), client=client)
    return [sandbox async for sandbox in listing]


async def _tags(sandbox: "modal.Sandbox") -> dict[str, str] | None:
    """None: it ended meanwhile."""
    try:
        return await persistently(lambda: sandbox.get_tags.aio())
    except Exception as error:  # sorted by `trouble`
        if trouble(error) is Trouble.GONE:
            return None
        raise
