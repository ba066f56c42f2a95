"""What is to be masked for one model, in every shape in which a program may print it.

A header is typed with its scheme and printed without; a password is typed quoted for the URL and
printed as it is. Whoever masks for a model asks here, so that no two of them disagree.
"""

import base64
import binascii
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from agentcompass.components.configuration.secrets import names_query_secret

_SCHEMES = frozenset(["bearer", "basic", "token", "apikey", "api-key"])
_LONGEST_WORD = 12


def model_secrets(base_url: str, api_key: str | None, headers: Iterable[str]) -> list[str]:
    """The key; the headers whole, without their scheme, and what stands in Basic credentials;
    user and password of the address, as typed and as meant, and the password alone; the values
    of its query that are secrets by their names."""
    found = [api_key or "", *query_secrets(base_url)]
    for header in headers:
        found += [header, *_without_scheme(header)]
    userinfo, at, _ = urlsplit(base_url.strip()).netloc.rpartition("@")
    if at:
        found += [userinfo, *_of_pair(unquote(userinfo))]
        found += _of_pair(userinfo)  # quoted in its own way
    return list(dict.fromkeys(secret for secret in found if secret))


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
    found = [v for name, v in pairs if names_query_secret(name)]
    return tuple(dict.fromkeys(found + [quote(v) for v in found]))


def _without_scheme(header: str) -> Iterator[str]:
    scheme, _, token = header.strip().partition(" ")
    if scheme.lower() not in _SCHEMES:
        return
    yield token.strip()
    if scheme.lower() == "basic":
        try:
            yield from _of_pair(base64.b64decode(token.strip(), validate=True).decode())
        except (binascii.Error, UnicodeDecodeError):  # nothing that a program could take apart
            return


def _of_pair(pair: str) -> Iterator[str]:
    """`user:password` and the password; a user alone is a token.

    A password that is one plain word is masked beside its user only: by itself it would riddle
    every record (`pass` in `passed`) and tell what it is.
    """
    yield pair
    password = pair.partition(":")[2]
    if not password.isalpha() or len(password) > _LONGEST_WORD:
        yield password
