"""litellm, kept quiet: imported at first use, no price list from the internet, no prints.

What it is asked to do: put a request into the form its model wants (for OpenAI's own models, the
names and limits of parameters differ from model to model), and price calls by its list. What it
is not asked to do: read replies (it turns missing token counts into 0, unknown finish reasons
into "stop"), retry, choose the address or find a key. Measured with 1.110: import 3 CPU seconds
and 170 MB, 4 to 6 ms of CPU per call, against 0.6 ms for all the rest, the HTTP request included.
"""

import asyncio
import logging
import os
import warnings
from collections.abc import Mapping
from typing import Any

import httpx

from agentcompass.components.models._wire import PinnedTransport, Wire

_ADDRESS = "http://endpoint.invalid/v1"  # never asked: the wire sends to the user's address
_NO_KEY = "unused"  # never sent: the wire adds the user's credentials
_LEFT_BEHIND = r"coroutine '(OpenAIChatCompletion|BaseLLMHTTPHandler)\.\w+' was never awaited"
"""It makes its coroutine in a thread; a call that is cancelled meanwhile never takes it."""


async def loaded() -> Any:
    """The module; the first import takes seconds and happens off the event loop."""
    return await asyncio.to_thread(load)


def load() -> Any:
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # before the import, or it downloads one
    import litellm

    warnings.filterwarnings("ignore", _LEFT_BEHIND, RuntimeWarning)
    litellm.telemetry = False
    litellm.suppress_debug_info = True
    for name in ("LiteLLM", "LiteLLM Router", "LiteLLM Proxy"):
        logger = logging.getLogger(name)
        for handler in list(logger.handlers):
            logger.removeHandler(handler)
        logger.propagate = True
        logger.setLevel(logging.CRITICAL)  # its errors are about its own logging, not the call
    return litellm


class Caller:
    """litellm's three calls over one wire."""

    def __init__(self, wire: Wire) -> None:
        self._transport = PinnedTransport(wire)
        self._openai: Any = None
        self._handler: Any = None

    async def chat(self, fields: Mapping[str, Any], extra: Mapping[str, Any], own: bool) -> object:
        """`own`: the endpoint is OpenAI's, whose models differ in what parameters they take."""
        litellm = await loaded()
        return await litellm.acompletion(
            **fields,
            extra_body=dict(extra),
            custom_llm_provider="openai" if own else "custom_openai",
            client=self._sdk(),
            **_common(_ADDRESS),
        )

    async def responses(self, fields: Mapping[str, Any], extra: Mapping[str, Any]) -> object:
        litellm = await loaded()
        return await litellm.aresponses(
            **fields,
            extra_body=dict(extra),
            custom_llm_provider="openai",
            client=self._http(),
            **_common(_ADDRESS),
        )

    async def messages(self, fields: Mapping[str, Any]) -> object:
        litellm = await loaded()
        return await litellm.anthropic_messages(
            **fields,
            custom_llm_provider="anthropic",
            client=self._http(),
            **_common(f"{_ADDRESS}/messages"),
        )

    async def close(self) -> None:
        if self._openai is not None:
            await self._openai.close()
        if self._handler is not None:
            await self._handler.client.aclose()
        self._openai = self._handler = None

    def _sdk(self) -> Any:
        if self._openai is None:
            from openai import AsyncOpenAI

            client: Any = httpx.AsyncClient(transport=self._transport, timeout=None)
            self._openai = AsyncOpenAI(
                api_key=_NO_KEY,
                base_url=_ADDRESS,
                max_retries=0,
                http_client=client,
            )
        return self._openai

    def _http(self) -> Any:
        if self._handler is None:
            from litellm.llms.custom_httpx.http_handler import AsyncHTTPHandler

            self._handler = AsyncHTTPHandler(transport=self._transport)
        return self._handler


def _common(address: str) -> dict[str, Any]:
    return {"api_base": address, "api_key": _NO_KEY, "num_retries": 0, "max_retries": 0}
