"""Rows of a data set: read from a local file or a public hub, checked, and hashed by content."""

import difflib
import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentcompass.components.contracts.errors import RequestError
from agentcompass.components.contracts.user_path import user_path
from agentcompass.components.datasets.hub import HubSource, read_hub
from agentcompass.components.datasets.local import read_local

Columns = Mapping[str, type]
"""The columns a benchmark uses, with the Python type of their values."""


@dataclass(frozen=True)
class Records:
    """All rows in the data's own order, reduced to the columns that were asked for."""

    rows: tuple[Mapping[str, Any], ...]
    source: str
    """The hub id, or the local file's name."""
    revision: str | None
    """The hub's commit; None for a local file."""
    content_hash: str
    """sha256 of the rows; the same for the same rows, whatever file format held them."""
    places: tuple[str, ...] = ()
    """Where each row stands: `rows.jsonl, line 3`."""
    field: str = ""
    """The parameter that named them."""

    def wrong(self, number: int, problem: str) -> RequestError:
        """Of the row with this number, from 0."""
        return RequestError(self.field, f"{self.places[number]}: {problem}")


def load_records(
    hub: HubSource,
    columns: Columns,
    data_dir: Path,
    *,
    data_path: str | None = None,
    revision: str | None = None,
) -> Records:
    """The rows of `data_path` if given, else of the hub data set.

    Blocking: reads files and, when nothing is cached, the network. Raises RequestError for what
    the user can correct in `data_path` or `revision`, PreflightRefused when the hub cannot give
    the data here and now.
    """
    if data_path:
        if revision:
            raise RequestError(
                "benchmark-params.revision",
                "a local file has no revision",
                "leave out `revision` or `data_path`",
            )
        path = user_path(data_path, "benchmark-params.data_path")
        field, source, commit = "benchmark-params.data_path", path.name, None
        where = str(path)
        located = read_local(path)
    else:
        field, source = "benchmark-params.revision", hub.repository
        where = source
        commit, located = read_hub(hub, revision, data_dir)
    found = tuple(_checked(located, columns, field, where))
    if not found:
        raise RequestError(field, f"{where} holds no records")
    rows = tuple(row for _, row in found)
    places = tuple(place for place, _ in found)
    return Records(rows, source, commit, rows_hash(rows), places, field)


def rows_hash(rows: Sequence[Mapping[str, Any]]) -> str:
    """sha256 over one canonical JSON line per row."""
    digest = hashlib.sha256()
    for row in rows:
        digest.update(canonical_json(row) + b"\n")
    return digest.hexdigest()


def canonical_json(value: Any) -> bytes:
    """The same bytes for equal values: sorted keys, no spaces, ASCII."""
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode("ascii")


def _checked(
    located: Iterable[tuple[str, Mapping[str, Any]]], columns: Columns, field: str, where: str
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each row with its place."""
    for inside, row in located:
        place = f"{where}, {inside}"
        for name, kind in columns.items():
            if name not in row:
                raise RequestError(field, f"{place}: no column {name!r}", _columns_there(name, row))
            if not isinstance(row[name], kind):
                raise RequestError(
                    field,
                    f"{place}: column {name!r} holds {_kind(row[name])}, "
                    f"not {_KINDS.get(kind, kind.__name__)}",
                )
        yield place, {name: row[name] for name in columns}


def _columns_there(name: str, row: Mapping[str, Any]) -> str:
    there = ", ".join(repr(key) for key in list(row)[:12]) or "none"
    close = difflib.get_close_matches(name, list(row), n=1)
    return f"the columns there: {there}" + (f" (is {close[0]!r} meant?)" if close else "")


_KINDS: dict[type, str] = {
    str: "text",
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    list: "a list",
    dict: "an object",
    type(None): "null",
}


def _kind(value: Any) -> str:
    return _KINDS.get(type(value), type(value).__name__)
