"""One model call: tries, retries, back-off and their bounds. Nothing else retries."""

import asyncio
import json
import logging
import re
from dataclasses import replace

from agentcompass.components.contracts.attempt import AttemptKey
from agentcompass.components.contracts.errors import AgentCompassError, Code
from agentcompass.components.contracts.model import ModelReply, ModelRequest
from agentcompass.components.contracts.usage import Usage
from agentcompass.components.models._backoff import Throttle, delay_before
from agentcompass.components.models._dialect import Body, Decoded, Dialect, Wanted, encodable
from agentcompass.components.models._failures import (
    Failure,
    RawReply,
    Retry,
    UnreadableReply,
    failure_of_exception,
    failure_of_reply,
)
from agentcompass.components.models._litellm import Caller
from agentcompass.components.models._masking import Masking
from agentcompass.components.models._meter import Meter, OpenCall
from agentcompass.components.models._parameters import ModelParameters
from agentcompass.components.models._trouble import Trouble
from agentcompass.components.models._usage import REFUSED, UNKNOWN, Pricing
from agentcompass.components.models._wire import Wire

log = logging.getLogger(__name__)

UNREADABLE_ASKS = 3
"""A reply that cannot be read is asked for this often in all."""


class Asking:
    """Asks one model at one endpoint; shared by all attempts of a run.

    Rate limits and passing faults are retried within `max_retry_seconds`, unreadable replies
    `UNREADABLE_ASKS` times, everything else never.
    """

    def __init__(
        self,
        dialect: Dialect,
        parameters: ModelParameters,
        model: str,
        url: str,
        wire: Wire,
        mask: Masking,
    ) -> None:
        self._dialect, self._parameters = dialect, parameters
        self._model, self._url, self._wire, self._mask = model, url, wire, mask
        self._own_endpoint = url.startswith("https://api.openai.com/")
        self._caller = Caller(wire)
        self._throttle = Throttle()
        self._answered = False
        self._trouble = Trouble(parameters.max_retry_seconds)
        self._replay = parameters.reasoning.replay != "never"
        self.pricing = Pricing(parameters.prices, url, model)

    async def ask(
        self, request: ModelRequest, meter: Meter, call: OpenCall, key: AttemptKey
    ) -> ModelReply:
        """`key`: the attempt that asks, for the log."""
        answered = False
        try:
            reply = await self._until_answered(request, meter, call, key)
            answered = True
        finally:
            self._trouble.over(call, answered=answered)
        return reply

    async def _until_answered(
        self, request: ModelRequest, meter: Meter, call: OpenCall, key: AttemptKey
    ) -> ModelReply:
        retries = unreadable = 0
        spent = 0.0  # seconds of tries in vain and of the delays between them
        while True:
            async with self._throttle.slot():
                outcome, seconds = await self._timed(request, meter, call)
                if isinstance(outcome, Decoded):
                    self._throttle.succeeded()
                    self._answered = True
                    usage = self.pricing.usage(outcome.tokens)
                    meter.add(usage)
                    return _reply(outcome, usage, seconds, call.waited_until_now())
                retries += 1
                unreadable += outcome.retry is Retry.REPLY
                delay = 0.0
                if outcome.retry is not Retry.REPLY:
                    delay = delay_before(retries, outcome.retry_after)
                if outcome.retry is Retry.RATE:
                    self._throttle.refused(delay)
            spent += seconds + delay  # our own queue is no reason to give up
            late = spent > self._parameters.max_retry_seconds
            ends = outcome.retry is Retry.NO or late or unreadable >= UNREADABLE_ASKS
            if outcome.perhaps_billed:
                meter.add(UNKNOWN)
            elif ends:
                meter.add(REFUSED)
            if ends:
                raise self.error(outcome)
            self._trouble.met(call, key, self._line(outcome), delay)
            await asyncio.sleep(delay)

    async def once(self, request: ModelRequest, parameters: ModelParameters) -> Decoded | Failure:
        """One request, whatever comes of it."""
        wanted = Wanted(request, self._model, parameters, self._replay)
        return await self._try(self._dialect.encode(wanted))

    def error(self, failure: Failure) -> AgentCompassError:
        return AgentCompassError(failure.code, self._line(failure))

    async def close(self) -> None:
        await self._caller.close()

    async def _timed(
        self, request: ModelRequest, meter: Meter, call: OpenCall
    ) -> tuple[Decoded | Failure, float]:
        outcome: Decoded | Failure | None = None
        call.try_begins()
        try:
            wanted = Wanted(request, self._model, self._parameters, self._replay)
            body = self._dialect.encode(wanted)
            outcome = await self._try(body)
            if self._complains_about_reasoning(outcome, body):
                outcome = await self._without_reasoning(request, outcome)
            if isinstance(outcome, Failure):
                outcome = self._judged(outcome, request)
        finally:
            in_vain = isinstance(outcome, Failure) and outcome.retry is not Retry.NO
            seconds = call.try_ends(in_vain=in_vain)
            if outcome is None:  # cancelled while the endpoint may have been at work
                meter.add(UNKNOWN)
        return outcome, seconds

    async def _try(self, body: Body) -> Decoded | Failure:
        """One request, bounded in time by the wall clock."""
        body = Body(encodable(body.fields), encodable(body.extra), body.reasoning_fields)
        try:
            async with asyncio.timeout(self._parameters.timeout):
                exchange = await self._wire.exchange(
                    self._dialect.overlay(body),
                    lambda: self._dialect.send(self._caller, body, own_endpoint=self._own_endpoint),
                )
        except TimeoutError:
            words = f"no complete reply within {self._parameters.timeout:g} s"
            return Failure(Code.MODEL_TIMEOUT, words, Retry.TRANSIENT, perhaps_billed=True)
        if exchange.reply is None:
            return failure_of_exception(exchange.error or RuntimeError("no request was made"))
        failure = failure_of_reply(exchange.reply)
        return failure if failure is not None else self._decoded(exchange.reply)

    def _decoded(self, reply: RawReply) -> Decoded | Failure:
        try:
            return self._dialect.decode(json.loads(reply.body))
        except UnreadableReply as error:
            shown = reply.body[:4_000].decode("utf-8", errors="replace")
            return Failure(
                Code.MODEL_INVALID_REPLY, f"{error}: {shown}", Retry.REPLY, perhaps_billed=True
            )

    def _complains_about_reasoning(self, outcome: Decoded | Failure, body: Body) -> bool:
        """A 400 that speaks of our reasoning fields, or of some field it does not know."""
        if not isinstance(outcome, Failure) or outcome.code is not Code.MODEL_BAD_REQUEST:
            return False
        if not body.reasoning_fields or self._parameters.reasoning.replay != "auto":
            return False
        words = outcome.words.lower()
        named = any(name in words for name in body.reasoning_fields)
        return named or _FIELD_REFUSED.search(words) is not None

    async def _without_reasoning(
        self, request: ModelRequest, first: Decoded | Failure
    ) -> Decoded | Failure:
        """Ask once more without earlier reasoning; remember it if that is what was wrong."""
        wanted = Wanted(request, self._model, self._parameters, replay=False)
        second = await self._try(self._dialect.encode(wanted))
        if isinstance(second, Failure) and second.retry is Retry.NO:
            return first
        if isinstance(second, Decoded) and self._replay:
            self._replay = False
            log.warning(
                "%s refuses earlier reasoning; it is left out from now on", self._mask(self._url)
            )
        return second

    def _judged(self, failure: Failure, request: ModelRequest) -> Failure:
        """What only the conversation, or the run so far, tells of a refusal."""
        begun = any(message.role == "assistant" for message in request.messages)
        too_long = failure.code is Code.MODEL_CONTEXT_WINDOW
        if too_long and not begun and _ROOM_FOR_REPLY.search(failure.words.lower()):
            words = f"{failure.words}; give model-params a lower max_tokens"
            return replace(failure, code=Code.MODEL_BAD_REQUEST, words=words)
        if failure.code is Code.MODEL_AUTH and self._answered and "an HTML page" in failure.words:
            # The key was good a moment ago: a guard before the endpoint refuses this prompt.
            return replace(failure, code=Code.MODEL_BAD_REQUEST)
        return failure

    def _line(self, failure: Failure) -> str:
        where = self._mask(self._url)
        return f"model {self._model!r} at {where}: {self._mask.line(failure.words)}"


_ROOM_FOR_REPLY = re.compile(r"max_(completion_|output_|new_)?tokens|in the completion")
_FIELD_REFUSED = re.compile(
    r"unknown|unrecognized|unrecognised|unexpected|unsupported|not supported|not permitted"
    r"|not allowed|additional propert|extra (inputs|fields)|invalid (field|key|parameter)"
)


def _reply(decoded: Decoded, usage: Usage, latency: float, waited: float) -> ModelReply:
    return ModelReply(
        message=decoded.message,
        finish_reason=decoded.finish_reason,
        usage=usage,
        model_name=decoded.model_name,
        latency_seconds=latency,
        waiting_seconds=waited,
    )
