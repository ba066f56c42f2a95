"""A client whose replies come from a file: no endpoint, no key, the same account of usage."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from agentcompass.components.contracts.attempt import AttemptKey
from agentcompass.components.contracts.errors import AgentCompassError
from agentcompass.components.contracts.model import ModelEndpoint, ModelReply, ModelRequest
from agentcompass.components.contracts.usage import Usage
from agentcompass.components.models._meter import Meter
from agentcompass.components.models._usage import REFUSED


@dataclass(frozen=True)
class Answer:
    """What a call comes to."""

    reply: ModelReply | None = None
    error: AgentCompassError | None = None
    delay_seconds: float = 0.0


class OfflineClient:
    """One attempt's client; `answer` decides from the attempt and the request alone."""

    def __init__(
        self,
        name: str,
        key: AttemptKey,
        answer: Callable[[AttemptKey, ModelRequest], Answer],
        prices_known: bool,
    ) -> None:
        self.name = name
        self._key, self._answer, self._prices_known = key, answer, prices_known
        self._meter = Meter()

    async def complete(self, request: ModelRequest) -> ModelReply:
        answer = self._answer(self._key, request)
        with self._meter.call() as call:
            call.try_begins()
            try:
                await asyncio.sleep(answer.delay_seconds)
            finally:
                seconds = call.try_ends(in_vain=False)
        if answer.reply is None:
            self._meter.add(REFUSED)
            assert answer.error is not None
            raise answer.error
        self._meter.add(answer.reply.usage)
        return answer.reply.model_copy(update={"latency_seconds": seconds})

    def endpoint(self) -> ModelEndpoint | None:
        return None

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
        return self._prices_known


def turn(request: ModelRequest) -> int:
    """How many replies the model has given in this conversation."""
    return sum(message.role == "assistant" for message in request.messages)


def first_user(request: ModelRequest) -> str:
    return next((m.content for m in request.messages if m.role == "user"), "")
