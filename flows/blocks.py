"""A model's key in a Prefect Secret block: read when the run starts, and held in memory only."""

from typing import Any

from prefect.blocks.system import Secret

from agentcompass.components.contracts.errors import RequestError
from agentcompass.components.contracts.run import RunRequest


async def key_of_block(request: RunRequest) -> dict[str, str]:
    """The key by the name it is held under; nothing if the request names no block."""
    key = request.model.api_key
    if key is None or not key.block or request.rescore:
        return {}
    try:
        block: Secret[Any] = await Secret.aload(key.block)
    except ValueError as error:  # Prefect's word for one that does not exist
        raise RequestError(
            "model-api-key",
            f"there is no Prefect Secret block {key.block!r} ({error})",
            "create it in the UI under Blocks",
        ) from None
    return {key.name: str(block.get())}
