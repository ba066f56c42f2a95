"""From any usual spelling of a base URL to the address that is really asked."""

import re
from urllib.parse import urlsplit, urlunsplit

from agentcompass.components.contracts.errors import RequestError

PATHS = {
    "openai-chat": "/v1/chat/completions",
    "openai-responses": "/v1/responses",
    "anthropic-messages": "/v1/messages",
}
OFFICIAL = {
    "openai-chat": "https://api.openai.com",
    "openai-responses": "https://api.openai.com",
    "anthropic-messages": "https://api.anthropic.com",
}
"""Asked when no base URL is given."""
_VERSION = re.compile(r"/v\d+(alpha\d*|beta\d*)?$")


def endpoint_url(base_url: str, protocol: str) -> str:
    """The full URL of a protocol's one route, without credentials.

    `http://h`, `…/v1`, `…/v1/`, `…/v1/chat/completions` (or another protocol's route) and the
    same below a sub-path all end in the protocol's route exactly once; the query is kept. A
    version of the endpoint's own stands in place of `/v1`: `…/api/v3`, and whatever a full
    `…/v1beta/openai/chat/completions` says. Raises RequestError for what is no HTTP address.
    """
    parts = urlsplit(_checked(base_url or OFFICIAL[protocol]))
    path = _versioned(parts.path) + _route(protocol)
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit((parts.scheme.lower(), host, path, parts.query, ""))


def root_url(base_url: str, protocol: str) -> str:
    """The same address as a program's own client expects it: with `/v1` for the OpenAI
    protocols, without for Anthropic's."""
    parts = urlsplit(endpoint_url(base_url, protocol))
    path = parts.path.removesuffix(_route(protocol))
    if protocol == "anthropic-messages":
        path = path.removesuffix("/v1")
    return urlunsplit((parts.scheme, parts.netloc, path, parts.query, ""))


def _route(protocol: str) -> str:
    """What stands behind the version."""
    return PATHS[protocol].removeprefix("/v1")


def _versioned(path: str) -> str:
    """The path up to the route, its version included."""
    path = path.rstrip("/")
    for protocol in PATHS:
        if path.endswith(_route(protocol)):
            return path.removesuffix(_route(protocol)).rstrip("/") or "/v1"
    return path if _VERSION.search(path) else path + "/v1"


def _checked(base_url: str) -> str:
    text = base_url.strip()
    try:
        parts = urlsplit(text)
        valid = parts.scheme.lower() in ("http", "https") and bool(parts.hostname)
        _ = parts.port
    except ValueError:
        valid = False
    if not valid:
        shown = text.rpartition("@")[2].partition("?")[0]
        raise RequestError(
            "model-base-url", f"{shown!r} is no HTTP address", "write it like https://host/v1"
        )
    return text
