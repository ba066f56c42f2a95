"""Secrets are masked by value, in every shape they may be printed in, at every write.

A secret is found plain, JSON-escaped (also twice), quoted for URLs, HTML, shells and Python, in
base64 (standard and URL-safe, at all three byte alignments, also across line breaks: what
`env | base64` prints) and in hex. Each find becomes `***`.

What is not masked, and why:
- Secrets shorter than 4 characters, and words that stand for "no key" (`EMPTY`, `none`, `test`,
  …): masking them would riddle every record with `***` and protect nothing.
- Encoded forms that pin down less than 8 characters: they would hit innocent data.
- Numbers, and in models the fields that name things (ids, hashes, codes, closed choices): a
  record must stay readable and findable whatever the key is.
- Keys of mappings, and what `names` is given (a run's tasks, plan and fingerprint), unless a secret
  of 16 characters or more is in it: a program printed it as a key, or it was typed as a parameter.
  A field *named* like a secret is never touched: only values count.

Masking serves records that people read, and whatever is stored: keys never reach results. A
submission or an artifact without a secret in it is stored untouched. One that holds the key is
masked in the detail, in the checkpoint and in the artifact alike; the agent copied the key there.
"""

import base64
import html
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import Enum
from functools import cache, lru_cache
from typing import Any, Literal, TypeVar, get_args, get_origin
from urllib.parse import quote, quote_plus

from pydantic import BaseModel

from agentcompass.components.results.writing import DEEPEST

MASK = "***"
SHORTEST = 4
PLACEHOLDERS = frozenset(
    ["empty", "none", "null", "dummy", "fake", "test", "local", "token", "unused", "ollama"]
    + ["placeholder", "lm-studio", "not-needed", "no-key", "nokey", "no-key-needed"]
)
_SHORTEST_ENCODED = 8
_LONG = 16
_NAMING_FIELDS = frozenset(
    ["task_id", "category", "schema_version", "content_hash", "sha256"]
    + ["image", "harness_version", "origin"]
)
_GAP = r"(?:\s|\\r|\\n)*"  # a line break, or one that is itself escaped
_WHITE = dict.fromkeys(map(ord, " \t\r\n"))

T = TypeVar("T")


class Masker:
    """Masks a set of secrets. Immutable; safe to share between threads."""

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        given = {form for secret in secrets for form in (secret, secret.strip())}
        used = {s for s in given if len(s) >= SHORTEST and s.lower() not in PLACEHOLDERS}
        self._text = _Forms(used)
        self._bytes = _Forms(used, written=_as_latin)
        self._long = frozenset(secret for secret in used if len(secret) >= _LONG)
        self._keys = _Forms(self._long)

    def text(self, text: str) -> str:
        return self._text.mask(text)

    def bytes(self, data: bytes) -> bytes:
        """Like `text`, for content in any encoding that keeps ASCII."""
        shown = data.decode("latin-1")
        masked = self._bytes.mask(shown)
        return data if masked is shown else masked.encode("latin-1")

    def value(self, value: T) -> T:
        """The same value, of the same types, with every text in it masked."""
        return self._value(value, 0)  # type: ignore[no-any-return]

    def names(self, value: T) -> T:
        """The same for ids, hashes and parameters, which later runs compare and read: `openai` or
        `1234` as a key must not change them, so only long secrets are masked."""
        return Masker(self._long).value(value)

    def _value(self, value: Any, depth: int) -> Any:
        if isinstance(value, Enum):
            return value
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, bytes):
            return self.bytes(value)
        if depth > DEEPEST and isinstance(value, BaseModel | Mapping | list | tuple):
            return MASK  # no record keeps what is nested so deeply
        if isinstance(value, BaseModel):
            return self._model(value, depth)
        if isinstance(value, Mapping):
            return self._mapping(value, depth)
        if isinstance(value, list):
            return [self._value(item, depth + 1) for item in value]
        if isinstance(value, tuple):
            return tuple(self._value(item, depth + 1) for item in value)
        return value

    def _mapping(self, mapping: Mapping[Any, Any], depth: int) -> dict[Any, Any]:
        masked: dict[Any, Any] = {}
        for key, item in mapping.items():
            name = self._keys.mask(key) if isinstance(key, str) else key
            while name in masked:  # two keys that differed only in what was masked
                name += "*"
            masked[name] = self._value(item, depth + 1)
        return masked

    def _model(self, model: BaseModel, depth: int) -> BaseModel:
        changed = {}
        for name in _maskable(type(model)):
            old = getattr(model, name)
            new = self._value(old, depth + 1)
            if new is not old:
                changed[name] = new
        return model.model_copy(update=changed) if changed else model


class _Forms:
    """The shapes of some secrets, longest first, so that none is left in part by another."""

    def __init__(self, secrets: Iterable[str], written: Callable[[str], str] = str) -> None:
        every = list(secrets)
        literal = {written(form) for secret in every for form in _written_forms(secret)}
        encoded = {form for secret in every for form in _encoded_forms(secret)}
        self._literal = sorted(literal | encoded, key=lambda form: (-len(form), form))
        self._encoded = [form for form in self._literal if form in encoded]

    def mask(self, text: str) -> str:
        """The very same object if nothing was found."""
        for form in self._literal:
            if form in text:
                text = text.replace(form, MASK)
        if self._encoded and ("\n" in text or "\\n" in text):
            # Searching with gaps is slow: first see, without the gaps, whether it is worth it.
            squeezed = text.replace("\\n", "").replace("\\r", "").translate(_WHITE)
            for form in self._encoded:
                if form in squeezed:
                    text = _with_gaps(form).sub(MASK, text)
        return text


@lru_cache(64)
def _with_gaps(form: str) -> re.Pattern[str]:
    return re.compile(_GAP.join(map(re.escape, form)))


def _written_forms(secret: str) -> Iterator[str]:
    yield secret
    yield html.escape(secret)
    yield html.escape(secret, quote=False)
    yield secret.replace("'", "'\"'\"'")  # inside a shell's single quotes
    yield re.sub(r'(["\\$`])', r"\\\1", secret)  # inside a shell's double quotes
    yield repr(secret)[1:-1]
    for ensure_ascii in (True, False):
        once = json.dumps(secret, ensure_ascii=ensure_ascii)[1:-1]
        for form in (once, json.dumps(once, ensure_ascii=ensure_ascii)[1:-1]):
            yield form
            yield form.replace("/", "\\/")
    # Programs differ in what they leave unquoted: RFC 3986, encodeURIComponent, encodeURI.
    for safe in ("", "/", "!'()*", ";,/?:@&=+$#!'()*"):
        for form in (quote(secret, safe=safe), quote_plus(secret, safe=safe)):
            yield form
            yield re.sub(r"%[0-9A-F]{2}", lambda found: found[0].lower(), form)


def _encoded_forms(secret: str) -> Iterator[str]:
    raw = secret.encode("utf-8", "surrogatepass")
    if len(raw) >= _SHORTEST_ENCODED // 2:
        yield raw.hex()
        yield raw.hex().upper()
    for offset in range(3):
        # Of the text before and after, only whole 6-bit groups of the secret itself are certain.
        encoded = base64.b64encode(bytes(offset) + raw).decode()
        core = encoded[(0, 2, 3)[offset] : (offset + len(raw)) * 8 // 6]
        if len(core) >= _SHORTEST_ENCODED:
            yield core
            yield core.replace("+", "-").replace("/", "_")


@cache
def _maskable(model: type[BaseModel]) -> tuple[str, ...]:
    return tuple(
        name
        for name, field in model.model_fields.items()
        if name not in _NAMING_FIELDS and not _closed(field.annotation)
    )


def _closed(annotation: Any) -> bool:
    return get_origin(annotation) is Literal or any(map(_closed, get_args(annotation)))


def _as_latin(secret: str) -> str:
    return secret.encode("utf-8", "surrogatepass").decode("latin-1")
