"""Files that are whole or absent: written beside, synced, renamed. JSON that any reader takes."""

import errno
import json
import math
import os
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import date
from enum import Enum
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from agentcompass.components.contracts.errors import AgentCompassError, Code

DEEPEST = 100
"""Levels of nesting kept in a record; readers in other languages give up not far beyond."""


def write_atomic(path: Path, data: bytes) -> None:
    """Write a whole file durably: after a crash the old or the new content stands, never a part.

    Makes missing folders. Raises AgentCompassError(results.write) that names the path; no
    temporary file is left behind.
    """
    with replacing(path) as temporary, temporary.open("xb") as file:
        file.write(data)


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A new path in the same folder to write to; on leaving it is synced and takes `path`."""
    # A dot and no trace of the target's name: it fits wherever the target's name fits.
    temporary = path.parent / f".{secrets.token_hex(8)}.tmp"
    try:
        make_folder(path.parent)
        try:
            yield temporary
            _sync(temporary, os.O_RDONLY)
            temporary.replace(path)
        except BaseException:  # an interrupt must not leave a temporary file either
            with suppress(OSError):
                temporary.unlink(missing_ok=True)
            raise
        sync_folder(path.parent)
    except OSError as error:
        raise unwritable(path, error) from error


def make_folder(path: Path) -> None:
    """Make a folder and its missing parents, each entry durable. Raises OSError."""
    if path.is_dir():
        return
    if path.parent != path:
        make_folder(path.parent)
    try:
        path.mkdir()
    except FileExistsError:
        if not path.is_dir():
            raise
    sync_folder(path.parent)


def sync_folder(path: Path) -> None:
    """Make the entries of a folder durable. Raises OSError."""
    try:
        _sync(path, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # file systems without folder sync
            raise


def unwritable(path: Path, error: OSError) -> AgentCompassError:
    """The failure `results.write` for an operating-system error, naming the path."""
    return AgentCompassError(
        Code.RESULTS_WRITE, f"cannot write {path}: {error.strerror or type(error).__name__}"
    )


def to_json(value: object, *, omit_none: bool = False) -> bytes:
    """A model or plain value as strict JSON: UTF-8, indented, a newline at the end.

    Models keep the order of their fields, mappings the order of their keys. Values that JSON or
    UTF-8 cannot carry are replaced as in `clean_text`. `omit_none` leaves out fields of models
    that are None (never entries of mappings).
    """
    plain, _ = clean_text(value, omit_none=omit_none)
    text = json.dumps(plain, ensure_ascii=False, allow_nan=False, indent=2)
    return text.encode() + b"\n"


def clean_text(value: object, *, omit_none: bool = False) -> tuple[Any, int]:
    """The value made of dicts, lists, text, numbers and None, and how many replacements it took.

    NUL and lone surrogates become U+FFFD, each counted: stores and strict readers refuse them.
    This works on values, so the six characters of a literal backslash-u0000 stay as they are.
    NaN and infinities (JSON has none) become the text "NaN", "Infinity", "-Infinity"; what is
    nested deeper than 100 levels becomes a text that says so; both are counted, too.
    """
    walk = _Walk(omit_none)
    return walk.plain(value, 0), walk.replaced


class _Walk:
    def __init__(self, omit_none: bool) -> None:
        self.omit_none = omit_none
        self.replaced = 0

    def plain(self, value: object, depth: int) -> Any:
        if isinstance(value, Enum):
            return self.plain(value.value, depth)
        if isinstance(value, str):
            return self._text(value)
        if value is None or isinstance(value, bool | int):
            return value
        if isinstance(value, float):
            return value if math.isfinite(value) else self._number_name(value)
        if isinstance(value, date):  # datetime, too
            return value.isoformat().replace("+00:00", "Z")
        if isinstance(value, bytes):
            return self._text(value.decode("utf-8", "replace"))
        if depth >= DEEPEST:
            self.replaced += 1
            return f"[nested deeper than {DEEPEST} levels]"
        if isinstance(value, BaseModel):
            return self._model(value, depth)
        if isinstance(value, Mapping):
            return self._mapping(value, depth)
        if isinstance(value, list | tuple):
            return [self.plain(item, depth + 1) for item in value]
        if isinstance(value, set | frozenset):
            return [self.plain(item, depth + 1) for item in sorted(value, key=str)]
        return self._text(str(value))

    def _model(self, model: BaseModel, depth: int) -> dict[str, Any]:
        values = ((name, getattr(model, name)) for name in type(model).model_fields)
        return {
            name: self.plain(value, depth + 1)
            for name, value in values
            if not (self.omit_none and value is None)
        }

    def _mapping(self, mapping: Mapping[Any, Any], depth: int) -> dict[str, Any]:
        cleaned: dict[str, Any] = {}
        for key, value in mapping.items():
            name = self.plain(key, depth) if isinstance(key, str | Enum) else self._text(str(key))
            while name in cleaned:  # two keys that differed only in what was replaced
                name += "\ufffd"
            cleaned[name] = self.plain(value, depth + 1)
        return cleaned

    def _text(self, text: str) -> str:
        text = str(text)
        if "\0" not in text and _encodes(text):
            return text
        self.replaced += sum(_bad(character) for character in text)
        return "".join("\ufffd" if _bad(character) else character for character in text)

    def _number_name(self, number: float) -> str:
        self.replaced += 1
        return "NaN" if math.isnan(number) else "Infinity" if number > 0 else "-Infinity"


def _encodes(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _bad(character: str) -> bool:
    return character == "\0" or "\ud800" <= character <= "\udfff"


def _sync(path: Path, flags: int) -> None:
    handle = os.open(path, flags)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
