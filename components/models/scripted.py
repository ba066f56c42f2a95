"""Built in: answers from a script file; for tests and demonstrations without a key."""

from collections.abc import Mapping
from functools import cached_property
from typing import Any

from agentcompass.components.contracts.attempt import AttemptKey
from agentcompass.components.contracts.errors import AgentCompassError
from agentcompass.components.contracts.frozen import Frozen
from agentcompass.components.contracts.model import (
    Message,
    ModelAccess,
    ModelReply,
    ModelRequest,
)
from agentcompass.components.contracts.protocols import Component
from agentcompass.components.contracts.usage import Usage
from agentcompass.components.models._offline import Answer, OfflineClient, first_user, turn
from agentcompass.components.models._parameters import Prices
from agentcompass.components.models._script import Script, ScriptedReply, read_script
from agentcompass.components.models._tool_calls import SentCall, read_calls
from agentcompass.components.models._usage import UNKNOWN, Tokens, user_cost


class ScriptedParameters(Frozen):
    """What the scripted model answers."""

    script: str | Mapping[str, Any] | None = None
    """A YAML or JSON file, or the same inline: `tasks` (by task id: `attempts`, `replies`),
    `rules` (`match` against the first user message) and `default`. A reply is a text, or
    {content, tool_calls, reasoning, finish_reason, usage, uncounted, delay_seconds, error}; a
    list of replies is one per turn, the last one repeats. Unset: one fixed text."""
    prices: Prices | None = None
    """US dollars per million tokens; unset: the cost is unknown."""


class ScriptedModel:
    """Stateless: a reply depends on the task, the attempt and the request alone."""

    def __init__(self, parameters: ScriptedParameters, access: ModelAccess) -> None:
        self._parameters, self._name = parameters, access.name or "scripted"

    async def check(self) -> None:
        """Raises RequestError if the script cannot be read; calls nothing."""
        _ = self._script

    def client(self, key: AttemptKey) -> OfflineClient:
        return OfflineClient(self._name, key, self._answer, self.prices_known)

    async def close(self) -> None:
        return

    @property
    def prices_known(self) -> bool:
        return self._parameters.prices is not None

    @cached_property
    def _script(self) -> Script:
        return read_script(self._parameters.script)

    def _answer(self, key: AttemptKey, request: ModelRequest) -> Answer:
        chosen = self._script.reply(key, first_user(request), turn(request))
        failure = chosen.error
        if failure is not None and key.physical <= (failure.physical_attempts or key.physical):
            error = AgentCompassError(failure.code, failure.message)
            return Answer(error=error, delay_seconds=chosen.delay_seconds)
        message = _message(chosen, turn(request))
        reply = ModelReply(
            message=message,
            finish_reason=chosen.finish_reason or ("tool_calls" if chosen.tool_calls else "stop"),
            usage=self._usage(chosen, request, message),
            model_name=self._name,
        )
        return Answer(reply=reply, delay_seconds=chosen.delay_seconds)

    def _usage(self, chosen: ScriptedReply, request: ModelRequest, message: Message) -> Usage:
        if chosen.uncounted:
            return UNKNOWN
        if (given := chosen.usage) is not None:
            tokens = Tokens(given.input, given.output, given.cached, reasoning=given.reasoning)
        else:
            asked = sum(_words(m) for m in request.messages)
            tokens = Tokens(asked, _words(message), reasoning=_count(message.reasoning))
        prices = self._parameters.prices
        return Usage(
            calls=1,
            input_tokens=tokens.input,
            cached_input_tokens=tokens.cached,
            output_tokens=tokens.output,
            reasoning_tokens=tokens.reasoning,
            cost_usd=user_cost(prices, tokens) if prices else None,
            unpriced_calls=0 if prices else 1,
        )


def _message(chosen: ScriptedReply, turn: int) -> Message:
    return Message(
        role="assistant",
        content=chosen.content,
        reasoning=chosen.reasoning,
        tool_calls=read_calls(
            SentCall(call.id or f"call_{turn + 1}_{n}", call.name, call.arguments)
            for n, call in enumerate(chosen.tool_calls, start=1)
        ),
    )


def _words(message: Message) -> int:
    """Words of text, reasoning and call arguments: the scripted model's tokens."""
    calls = sum(1 + _count(call.raw_arguments) for call in message.tool_calls)
    return _count(message.content) + _count(message.reasoning) + calls


def _count(text: str | None) -> int:
    return len(text.split()) if text else 0


COMPONENT = Component(version="1", create=ScriptedModel, parameters=ScriptedParameters)
