"""The honest test of users, mounts, devices and limits: open a sandbox."""

import asyncio
import logging
from collections.abc import Sequence

from agentcompass.components.contracts.attempt import AttemptKey
from agentcompass.components.contracts.errors import AgentCompassError
from agentcompass.components.contracts.protocols import EnvironmentProvider
from agentcompass.components.contracts.requirements import Requirements
from agentcompass.components.contracts.sandbox import SandboxLabel
from agentcompass.components.environments._docker.engine import Engine

_log = logging.getLogger(__name__)

_AT_MOST = 4
"""Sandboxes opened at preflight."""
_SECONDS = 60.0


async def trials(
    provider: EnvironmentProvider, engine: Engine, wanted: Sequence[Requirements]
) -> list[str]:
    """Why sandboxes of the first shapes would not open, as far as their images are here already."""
    shapes = {required.model_dump_json(): required for required in wanted}
    first = list(shapes.values())[:_AT_MOST]
    found = await asyncio.gather(*(_trial(provider, engine, required) for required in first))
    return [told for told in dict.fromkeys(found) if told]


async def _trial(provider: EnvironmentProvider, engine: Engine, required: Requirements) -> str:
    """ "" if it opened, or cannot be tried."""
    name = required.image
    if name is None or required.build is not None:
        return ""
    try:
        await engine.call(lambda client: client.api.inspect_image(name))
    except Exception as error:  # not here: pulled when the first attempt opens
        _log.debug("no trial of %s: %s", name, error)
        return ""
    label = SandboxLabel("check", AttemptKey(task_id="preflight", index=1), "preflight")
    try:
        async with asyncio.timeout(_SECONDS), provider.open(required, label):
            return ""
    except AgentCompassError as error:
        return f"docker: {error}"
    except TimeoutError:
        return f"docker: a sandbox of {name} did not open in {_SECONDS:g} s"
