"""Models behind an API: one provider per run, one client per attempt."""

import base64

from agentcompass.components.configuration.model_secrets import credentials, model_secrets
from agentcompass.components.contracts.attempt import AttemptKey
from agentcompass.components.contracts.errors import Code, RequestError
from agentcompass.components.contracts.model import (
    Message,
    ModelAccess,
    ModelEndpoint,
    ModelReply,
    ModelRequest,
)
from agentcompass.components.contracts.usage import Usage
from agentcompass.components.models._asking import Asking
from agentcompass.components.models._dialect import Dialect
from agentcompass.components.models._endpoint_url import endpoint_url, root_url
from agentcompass.components.models._failures import Failure, Retry
from agentcompass.components.models._litellm import loaded
from agentcompass.components.models._masking import Masking
from agentcompass.components.models._meter import Meter
from agentcompass.components.models._parameters import ModelParameters
from agentcompass.components.models._wire import Wire

CHECK_TOKENS = 16
"""Enough for every endpoint to accept the limit; OpenAI's responses take no less."""


class ApiProvider:
    """A model behind one of the API protocols, for a whole run."""

    def __init__(self, dialect: Dialect, parameters: ModelParameters, access: ModelAccess) -> None:
        _refuse_unsupported(dialect, parameters)
        self.name = access.name
        self._parameters = parameters
        self._protocol = dialect.protocol
        self._base_url = access.base_url
        url = endpoint_url(access.base_url, dialect.protocol)
        headers = _headers(dialect, parameters, access)
        self._wire = Wire(url, headers, parameters.connect_timeout)
        mask = Masking(model_secrets(access.base_url, access.api_key, headers.values()))
        self._asking = Asking(dialect, parameters, access.name, url, self._wire, mask)

    async def check(self) -> None:
        """One small request, never repeated. A busy endpoint (429) counts as reachable."""
        ping = Message(role="user", content="ping")
        request = ModelRequest(messages=(ping,), max_tokens=CHECK_TOKENS)
        reasoning = self._parameters.reasoning.model_copy(update={"budget_tokens": None})
        await loaded()
        outcome = await self._asking.once(
            request, self._parameters.model_copy(update={"reasoning": reasoning})
        )
        if isinstance(outcome, Failure):
            if outcome.retry is Retry.RATE or _only_too_short(outcome):
                return
            raise self._asking.error(outcome)

    def client(self, key: AttemptKey) -> "ApiClient":
        return ApiClient(self, key)

    async def ask(self, request: ModelRequest, meter: Meter, key: AttemptKey) -> ModelReply:
        await loaded()
        with meter.call() as call:
            return await self._asking.ask(request, meter, call, key)

    def endpoint(self) -> ModelEndpoint:
        return ModelEndpoint(
            protocol=self._protocol,
            base_url=root_url(self._base_url, self._protocol),
            model=self.name,
        )

    async def close(self) -> None:
        await self._asking.close()
        await self._wire.close()

    @property
    def prices_known(self) -> bool:
        return self._asking.pricing.known


class ApiClient:
    """The model for one attempt."""

    def __init__(self, provider: ApiProvider, key: AttemptKey) -> None:
        self.name = provider.name
        self._provider, self._key = provider, key
        self._meter = Meter()

    async def complete(self, request: ModelRequest) -> ModelReply:
        return await self._provider.ask(request, self._meter, self._key)

    def endpoint(self) -> ModelEndpoint | None:
        return self._provider.endpoint()

    @property
    def usage(self) -> Usage:
        return self._meter.usage

    @property
    def model_seconds(self) -> float:
        return self._meter.model_seconds

    @property
    def waiting_seconds(self) -> float:
        return self._meter.waiting_seconds

    @property
    def pending_seconds(self) -> float:
        return self._meter.pending_seconds

    @property
    def prices_known(self) -> bool:
        return self._provider.prices_known


def _refuse_unsupported(dialect: Dialect, parameters: ModelParameters) -> None:
    for name in dialect.unsupported:
        value: object = parameters
        for part in name.split("."):
            value = getattr(value, part)
        if value not in (None, ()):
            raise RequestError(
                f"model-params.{name}",
                f"{dialect.protocol} has no such parameter",
                "leave it out, or put what your endpoint expects into extra_body",
            )


def _headers(dialect: Dialect, parameters: ModelParameters, access: ModelAccess) -> dict[str, str]:
    """The key; user and password of the URL instead, where both want the same header; the user's
    own headers over both."""
    headers = dialect.auth_headers(access.api_key) if access.api_key else {}
    if (found := credentials(access.base_url)) is not None:
        pair = f"{found.user}:{found.password}".encode()
        headers["authorization"] = "Basic " + base64.b64encode(pair).decode()
    return headers | {name.lower(): value for name, value in parameters.headers.items()}


def _only_too_short(failure: Failure) -> bool:
    """The refusal of a model that could not think within the check's few tokens."""
    words = failure.words.lower()
    return failure.code is Code.MODEL_BAD_REQUEST and "output limit was reached" in words
