"""From any usual spelling of a base URL to the address that is really asked."""

from dataclasses import dataclass
from urllib.parse import parse_qsl, quote, unquote, urlsplit, urlunsplit

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

_SENSITIVE = ("key", "token", "secret", "sig", "password", "auth", "code")


def endpoint_url(base_url: str, protocol: str) -> str:
    """The full URL of a protocol's one route, without credentials.

    `http://h`, `…/v1`, `…/v1/`, `…/v1/chat/completions` (or another protocol's route) and the
    same below a sub-path all end in the protocol's route exactly once; the query is kept.
    Raises RequestError for what is no HTTP address.
    """
    parts = urlsplit(_checked(base_url or OFFICIAL[protocol]))
    path = _below(parts.path) + PATHS[protocol]
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit((parts.scheme.lower(), host, path, parts.query, ""))


def root_url(base_url: str, protocol: str) -> str:
    """The same address as a program's own client expects it: with `/v1` for the OpenAI
    protocols, without for Anthropic's."""
    parts = urlsplit(endpoint_url(base_url, protocol))
    path = parts.path.removesuffix(PATHS[protocol])
    if protocol != "anthropic-messages":
        path += "/v1"
    return urlunsplit((parts.scheme, parts.netloc, path, parts.query, ""))


@dataclass(frozen=True)
class Credentials:
    """User and password found in a base URL."""

    user: str
    password: str


def credentials(base_url: str) -> Credentials | None:
    parts = urlsplit(base_url.strip())
    if "@" not in parts.netloc:
        return None
    return Credentials(unquote(parts.username or ""), unquote(parts.password or ""))


def query_secrets(base_url: str) -> tuple[str, ...]:
    """Values in the query that look like secrets by their names."""
    pairs = parse_qsl(urlsplit(base_url.strip()).query)
    found = [v for name, v in pairs if any(word in name.lower() for word in _SENSITIVE)]
    return tuple(dict.fromkeys(found + [quote(v) for v in found]))


def _below(path: str) -> str:
    """The sub-path under which `/v1/…` stands."""
    path = path.rstrip("/")
    for route in PATHS.values():
        for spelling in (route, route.removeprefix("/v1")):
            if path.endswith(spelling):
                return path.removesuffix(spelling).rstrip("/").removesuffix("/v1")
    return path.removesuffix("/v1")


def _checked(base_url: str) -> str:
    text = base_url.strip()
    try:
        parts = urlsplit(text)
        valid = parts.scheme.lower() in ("http", "https") and bool(parts.hostname)
        _ = parts.port
    except ValueError:
        valid = False
    if not valid:
        shown = text.rpartition("@")[2]
        raise RequestError(
            "model-base-url", f"{shown!r} is no HTTP address", "write it like https://host/v1"
        )
    return text
