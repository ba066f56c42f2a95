import pytest

from agentcompass.components.configuration.model_secrets import credentials, query_secrets
from agentcompass.components.contracts.errors import RequestError
from agentcompass.components.models._endpoint_url import PATHS, endpoint_url, root_url
from tests.components.models.conversations import PROTOCOLS, ask, provider
from tests.standins.model_endpoint import ModelServer

SPELLINGS = {
    "": "",
    "/": "",
    "/v1": "",
    "/v1/": "",
    "/v1{route}": "",
    "/v1{route}/": "",
    "/team/llm": "/team/llm",
    "/team/llm/v1": "/team/llm",
    "/team/llm/v1{route}": "/team/llm",
    "?api-version=1": "",
    "/team/llm/v1?api-version=1": "/team/llm",
}


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize(("spelling", "below"), SPELLINGS.items())
def test_every_spelling_ends_in_the_route_once(protocol: str, spelling: str, below: str) -> None:
    route = PATHS[protocol].removeprefix("/v1")
    query = "?api-version=1" if "?" in spelling else ""
    url = endpoint_url("http://h:8000" + spelling.replace("{route}", route), protocol)
    assert url == f"http://h:8000{below}{PATHS[protocol]}{query}"


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_the_client_asks_that_address(protocol: str) -> None:
    route = PATHS[protocol].removeprefix("/v1")
    with ModelServer({}) as server:
        for spelling, below in SPELLINGS.items():
            ask(provider(protocol, server.root + spelling.replace("{route}", route)))
            query = "?api-version=1" if "?" in spelling else ""
            assert server.requests[-1].path == f"{below}{PATHS[protocol]}{query}"


def test_another_protocols_route_is_replaced() -> None:
    assert endpoint_url("http://h/v1/responses", "openai-chat") == "http://h/v1/chat/completions"


def test_without_a_base_url_the_makers_own_endpoint_is_asked() -> None:
    assert endpoint_url("", "openai-chat") == "https://api.openai.com/v1/chat/completions"
    assert endpoint_url("", "anthropic-messages") == "https://api.anthropic.com/v1/messages"


@pytest.mark.parametrize("bad", ["localhost:8000", "ftp://h/v1", "http://", "http://h:port/v1"])
def test_what_is_no_address_is_refused(bad: str) -> None:
    with pytest.raises(RequestError, match="model-base-url"):
        endpoint_url(bad, "openai-chat")


def test_credentials_leave_the_address() -> None:
    base = "https://me:p%40ss@h/v1?api_key=hidden&api-version=1"
    found = credentials(base)
    assert found is not None
    assert (found.user, found.password) == ("me", "p@ss")
    assert "p%40ss" not in endpoint_url(base, "openai-chat")
    assert "hidden" in query_secrets(base)
    assert "1" not in query_secrets(base)


def test_root_is_what_a_programs_own_client_expects() -> None:
    assert root_url("http://h/team/v1/", "openai-chat") == "http://h/team/v1"
    assert root_url("http://h/team/v1/", "anthropic-messages") == "http://h/team"


@pytest.mark.parametrize(
    ("base_url", "asked"),
    [
        ("http://h/v1beta/openai/chat/completions", "/v1beta/openai/chat/completions"),
        ("http://h/api/paas/v4/chat/completions", "/api/paas/v4/chat/completions"),
        ("http://h/api/v3", "/api/v3/chat/completions"),
        ("http://h/deployments/x/chat/completions?a=1", "/deployments/x/chat/completions?a=1"),
        ("http://h/chat/completions", "/v1/chat/completions"),
    ],
)
def test_a_version_of_the_endpoints_own_stands(base_url: str, asked: str) -> None:
    assert endpoint_url(base_url, "openai-chat") == "http://h" + asked
    below, _, query = asked.partition("/chat/completions")
    assert root_url(base_url, "openai-chat") == "http://h" + below + query
