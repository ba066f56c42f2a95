"""Limits by provider: each must name a provider that there is."""

from agentcompass.components.configuration.spelling import nearest
from agentcompass.components.contracts.errors import RequestError
from agentcompass.components.contracts.run import RuntimeSettings
from agentcompass.components.registry import registry

BY_PROVIDER = ("provider_limits", "env_open_qps")
"""Fields of RuntimeSettings whose keys are providers."""


def check_provider_names(runtime: RuntimeSettings, place: str = "runtime") -> None:
    """RequestError names the field and the provider: a limit under a misspelt id limits nothing."""
    named = [(field, provider) for field in BY_PROVIDER for provider in getattr(runtime, field)]
    if not named:
        return
    known = registry.listings("environments")
    for field, provider in named:
        if provider not in known:
            raise RequestError(
                f"{place}.{field}",
                f"no provider {provider!r}",
                f"{nearest(provider, known)} (all: agentcompass list env)",
            )
