"""What dead runs left in the environments: found by our label only, and removed."""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from agentcompass.components.configuration.validation import validate
from agentcompass.components.contracts.errors import AgentCompassError
from agentcompass.components.contracts.protocols import EnvironmentProvider
from agentcompass.components.contracts.sandbox import Leftover
from agentcompass.components.registry import registry

log = logging.getLogger(__name__)

ASK_SECONDS = 20.0
REAP_SECONDS = 30.0
"""A start of a run waits no longer for the removal of what earlier ones left."""


@dataclass(frozen=True)
class Found:
    environment_id: str
    leftover: Leftover
    provider: EnvironmentProvider

    async def remove(self) -> bool:
        """True when nothing of it is left."""
        try:
            return await self.provider.remove_leftover(self.leftover)
        except AgentCompassError as error:
            name = f"{self.environment_id} {self.leftover.id}"
            log.warning("%s could not be removed: %s", name, error)
            return False


@dataclass(frozen=True)
class Search:
    found: tuple[Found, ...]
    not_asked: Mapping[str, str]
    """Environment id → why it could not be asked."""


async def find(asked: Mapping[str, Mapping[str, Any]]) -> Search:
    """Ask these environments, all at once: id → parameters."""
    providers = {name: provider(name, params) for name, params in asked.items()}
    answers = await asyncio.gather(*(_ask(one) for one in providers.values()))
    by_id = dict(zip(providers, answers, strict=True))
    return Search(
        found=tuple(
            Found(name, leftover, providers[name])
            for name, answer in by_id.items()
            if not isinstance(answer, str)
            for leftover in answer
        ),
        not_asked={name: answer for name, answer in by_id.items() if isinstance(answer, str)},
    )


async def reap(environments: EnvironmentProvider) -> None:
    """Remove what dead runs of this machine left, kept sandboxes apart. Fails and delays no run."""
    try:
        async with asyncio.timeout(REAP_SECONDS):
            dead = [one for one in await environments.leftovers() if not one.kept]
            if not dead:
                return
            gone = await asyncio.gather(*(environments.remove_leftover(one) for one in dead))
    except (AgentCompassError, TimeoutError) as error:
        log.info("sandboxes of dead runs could not be looked for: %s", error)
        return
    log.info("removed %d sandboxes that dead runs had left", sum(gone))
    if not all(gone):
        log.warning("%d could not be removed: agentcompass env list", len(gone) - sum(gone))


def provider(environment_id: str, params: Mapping[str, Any]) -> EnvironmentProvider:
    component = registry.load("environments", environment_id)
    parameters = validate(component.parameters, params, "env-params")
    made = registry.create("environments", environment_id, component, parameters)
    return cast(EnvironmentProvider, made)


async def _ask(environments: EnvironmentProvider) -> Sequence[Leftover] | str:
    try:
        async with asyncio.timeout(ASK_SECONDS):
            return await environments.leftovers()
    except AgentCompassError as error:
        return str(error)
    except TimeoutError:
        return f"no answer in {ASK_SECONDS:g} s"
