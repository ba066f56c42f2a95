"""Earlier reasoning: sent back unchanged where it must be, left out where it may not be."""

import pytest

from agentcompass.components.contracts.errors import AgentCompassError, Code
from tests.components.models.conversations import PROTOCOLS, provider, tool_loop
from tests.standins.model_endpoint import ModelServer

CALL = {"name": "bash", "arguments": {"command": "ls"}}
SCRIPT = {
    "default": [
        {"reasoning": "first I think", "tool_calls": [CALL]},
        {"reasoning": "", "tool_calls": [CALL], "text": "hm"},
        {"reasoning": "done thinking", "text": "done"},
    ]
}
every_protocol = pytest.mark.parametrize("protocol", PROTOCOLS)


@every_protocol
def test_an_endpoint_that_demands_it_gets_it_back_unchanged(protocol: str) -> None:
    with ModelServer(SCRIPT, mode="reasoning_required") as server:
        replies = tool_loop(provider(protocol, server.base_url), 3)
    assert [reply.message.content for reply in replies] == ["", "hm", "done"]
    assert replies[0].message.reasoning == "first I think"
    assert len(server.requests) == 3


@every_protocol
def test_the_demand_is_real(protocol: str) -> None:
    made_without = {"reasoning": {"replay": "never"}}
    with (
        ModelServer(SCRIPT, mode="reasoning_required") as server,
        pytest.raises(AgentCompassError, match="passed back unchanged") as caught,
    ):
        tool_loop(provider(protocol, server.base_url, **made_without), 3)
    assert caught.value.code is Code.MODEL_BAD_REQUEST


@pytest.mark.parametrize("protocol", ["openai-chat", "openai-responses"])
def test_an_endpoint_that_forbids_it_is_asked_once_more_and_remembered(protocol: str) -> None:
    with ModelServer(SCRIPT, mode="strict_fields") as server:
        replies = tool_loop(provider(protocol, server.base_url), 3)
    assert [reply.message.content for reply in replies] == ["", "hm", "done"]
    assert replies[0].message.reasoning == "first I think"
    assert len(server.requests) == 4  # one refusal in the whole run


def test_always_means_always() -> None:
    with (
        ModelServer(SCRIPT, mode="strict_fields") as server,
        pytest.raises(AgentCompassError) as caught,
    ):
        tool_loop(provider("openai-chat", server.base_url, reasoning={"replay": "always"}), 3)
    assert caught.value.code is Code.MODEL_BAD_REQUEST
    assert len(server.requests) == 2
