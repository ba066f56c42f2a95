"""Secrets are references until the call that needs them; their values live in memory only.

A request holds `${NAME}` where a secret belongs. NAME is an environment variable, or a name
under which this process holds what the user typed. Prefect and the results store the request.
"""

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from types import MappingProxyType
from typing import Any
from urllib.parse import unquote_plus, urlsplit

from agentcompass.components.contracts.errors import RequestError
from agentcompass.components.contracts.run import ModelSpec, SecretReference

REFERENCE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
BLOCK = re.compile(r"\$\{block:([a-z0-9-]+)\}")
"""A Prefect Secret block of this name."""
HELD_KEY = "AGENTCOMPASS_MODEL_API_KEY"
HELD_URL = "AGENTCOMPASS_MODEL_URL_CREDENTIALS"
HELD_HEADER = "AGENTCOMPASS_MODEL_HEADER_"
HELD_QUERY = "AGENTCOMPASS_MODEL_QUERY_"
HELD_VARIABLE = "AGENTCOMPASS_VARIABLE_"
"""A variable of an environment."""
NO_KEY = "none"
"""Given as a key, in any case: the endpoint wants none. No secret, and no variable's name."""
_KEY_LIKE = re.compile(r"(?i)key|token|secret|sig|passw|auth|cred")
_AUTHORITY = re.compile(r"\s*((?:[A-Za-z][\w+.-]*:)?//|)([^/?#]*)")

_held: ContextVar[Mapping[str, str]] = ContextVar(
    "agentcompass_secrets", default=MappingProxyType({})
)


@contextmanager
def holding(secrets: Mapping[str, str]) -> Iterator[None]:
    """Within this block, and the tasks started in it, references resolve to these values."""
    token = _held.set({**_held.get(), **secrets})
    try:
        yield
    finally:
        _held.reset(token)


def hide(
    model: str,
    base_url: str,
    api_key: str,
    protocol: tuple[str, ...],
    params: Mapping[str, Any],
    field: str = "model-base-url",
) -> tuple[ModelSpec, dict[str, str]]:
    """Split what a user typed about a model into a spec without secrets and the secrets to hold.

    The key, credentials in the URL, key-like values of its query and every header's value are
    taken out; what holds a reference stays as it is. RequestError names `field` if the URL is
    none.
    """
    held: dict[str, str] = {}
    reference = None
    if api_key.lower() == NO_KEY:
        reference = SecretReference(env=NO_KEY)
    elif api_key:
        match, block = REFERENCE.fullmatch(api_key), BLOCK.fullmatch(api_key)
        if block:
            reference = SecretReference(block=block[1])
        else:
            reference = SecretReference(env=match[1] if match else HELD_KEY)
        if not (match or block):
            held[HELD_KEY] = api_key
    base_url = _hide_query(_hide_credentials(_split(base_url, field), held), held)
    headers = params.get("headers")
    if isinstance(headers, Mapping):
        shown = {}
        for name, value in headers.items():
            if isinstance(value, str) and value and not REFERENCE.search(value):
                value = _hold(value, HELD_HEADER + str(name), held)
            shown[name] = value
        params = {**params, "headers": shown}
    spec = ModelSpec(
        id=model, base_url=base_url, api_key=reference, api_protocol=protocol, params=params
    )
    return spec, held


def _split(base_url: str, field: str) -> tuple[str, str, str]:
    """What stands before the host's credentials, these, and the rest, beginning with `@`; without
    a scheme, too, which is an address that somebody forgot to finish."""
    try:
        urlsplit(base_url)
    except ValueError:
        shown = base_url.rpartition("@")[2].partition("?")[0]
        raise RequestError(
            field, f"{shown!r} is no HTTP address", "write it like https://host/v1"
        ) from None
    found = _AUTHORITY.match(base_url)
    credentials, at, _ = found[2].rpartition("@") if found else ("", "", "")
    if not (found and at):
        return base_url, "", ""
    return found[1], credentials, base_url[found.start(2) + len(credentials) :]


def _hide_credentials(address: tuple[str, str, str], held: dict[str, str]) -> str:
    before, credentials, rest = address
    if credentials and not REFERENCE.search(credentials):
        credentials = _hold(credentials, HELD_URL, held)
    return before + credentials + rest


def _hide_query(base_url: str, held: dict[str, str]) -> str:
    """The address with the values of key-like query parameters, as they are written there,
    replaced by references."""
    address, sharp, fragment = base_url.partition("#")
    place, mark, query = address.partition("?")
    shown = []
    for pair in query.split("&"):
        written, equals, value = pair.partition("=")
        name = unquote_plus(written)
        if value and names_query_secret(name) and not REFERENCE.search(value):
            value = _hold(value, HELD_QUERY + name, held)
        shown.append(written + equals + value)
    return place + mark + "&".join(shown) + sharp + fragment


def _hold(value: str, name: str, held: dict[str, str]) -> str:
    """A reference to it; `X-Key` beside `X_Key`, and a parameter given twice, keep their values."""
    variable = re.sub(r"\W", "_", name).upper()
    while held.get(variable, value) != value:
        variable += "_"
    held[variable] = value
    return f"${{{variable}}}"


def expand(text: str, field: str, seen: list[str]) -> str:
    """The text with its references resolved; each value used is appended to `seen`."""

    def value(match: re.Match[str]) -> str:
        found = resolve(SecretReference(env=match[1]), field)
        seen.append(found)
        return found

    return REFERENCE.sub(value, text)


def looks_secret(name: str) -> bool:
    """A variable of this name probably holds a secret."""
    return bool(_KEY_LIKE.search(name))


def names_query_secret(name: str) -> bool:
    """A parameter of this name in an address probably holds a secret."""
    return looks_secret(name) or "code" in name.lower()


def shell_secrets(values: Iterable[str]) -> list[str]:
    """What these values take from the environment, where a variable's name tells of a secret, and
    what is held for them."""
    names = [found[1] for value in values for found in REFERENCE.finditer(value)]
    held = [value for name in names if (value := held_variable(name))]
    return held + [os.environ[n] for n in names if looks_secret(n) and os.environ.get(n)]


def held_variable(name: str) -> str | None:
    """What this process holds for a variable of an environment; never the model's secrets, which
    a task could ask for."""
    return _held.get().get(name) if name.startswith(HELD_VARIABLE) else None


def resolve(reference: SecretReference, field: str) -> str:
    """The value this process holds, else the environment variable's; empty for NO_KEY."""
    if reference.env.lower() == NO_KEY:
        return ""
    value = _held.get().get(reference.name) or os.environ.get(reference.env)
    if not value and reference.block:
        raise RequestError(
            field,
            f"the Secret block {reference.block!r} is read by runs on a Prefect worker",
            "hand the run to one with agentcompass submit, or give ${NAME}, a variable",
        )
    if not value:
        raise RequestError(
            field,
            f"environment variable {reference.env} is not set or empty",
            f"export {reference.env}=… where the run is carried out",
        )
    return value
