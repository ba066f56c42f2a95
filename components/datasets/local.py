"""Read rows from a local .jsonl, .jsonl.gz, .json or .parquet file; errors name file and line."""

import gzip
import json
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NoReturn

from agentcompass.components.contracts.errors import RequestError

FIELD = "benchmark-params.data_path"

Located = tuple[str, Mapping[str, Any]]
"""A row and where it stands: "line 17", "item 3", "row 3"."""


def read_local(path: Path) -> Iterator[Located]:
    """Every row, in the file's order. Raises RequestError(benchmark-params.data_path)."""
    name = path.name.lower()
    if path.is_dir():
        _refuse(path, "is a folder, not a file", _files_in(path))
    if name.endswith(".parquet"):
        return parquet_rows(path)
    if name.endswith((".json", ".json.gz")):
        return _json_rows(path, _content(path))
    if not name.endswith((".jsonl", ".jsonl.gz", ".ndjson", ".ndjson.gz")):
        problem = "is of an unknown kind" if path.is_file() else "does not exist"
        _refuse(path, problem, "expected a .jsonl, .jsonl.gz, .json or .parquet file")
    return _json_lines(path, _content(path))


def parquet_rows(path: Path) -> Iterator[Located]:
    import pyarrow
    import pyarrow.parquet

    try:
        rows = pyarrow.parquet.read_table(path).to_pylist()
    except FileNotFoundError:
        _refuse(path, "does not exist")
    except (OSError, pyarrow.ArrowException) as error:
        _refuse(path, f"cannot be read as Parquet: {_first_line(error)}")
    for number, row in enumerate(rows, start=1):
        yield f"row {number}", row


def _json_lines(path: Path, content: bytes) -> Iterator[Located]:
    # Split at \n only: str.splitlines would also cut at U+2028 inside a JSON string.
    for number, line in enumerate(content.split(b"\n"), start=1):
        if not line.strip():
            continue
        place = f"line {number}"
        row = _parsed(path, line, place)
        if not isinstance(row, dict):
            _refuse(path, "not a JSON object", place=place)
        yield place, row


def _json_rows(path: Path, content: bytes) -> Iterator[Located]:
    rows = _parsed(path, content, "") if content.strip() else []
    if not isinstance(rows, list):
        _refuse(path, "does not hold a JSON list", "for one object per line name it .jsonl")
    for number, row in enumerate(rows, start=1):
        if not isinstance(row, dict):
            _refuse(path, "not a JSON object", place=f"item {number}")
        yield f"item {number}", row


def _content(path: Path) -> bytes:
    try:
        raw = path.read_bytes()
        if raw.startswith(b"\x1f\x8b"):
            raw = gzip.decompress(raw)
    except FileNotFoundError:
        _refuse(path, "does not exist")
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        _refuse(path, f"is a damaged gzip file: {_first_line(error)}")
    except OSError as error:
        _refuse(path, f"cannot be read: {error.strerror}")
    return raw.removeprefix(b"\xef\xbb\xbf")


def _parsed(path: Path, raw: bytes, place: str) -> Any:
    try:
        return json.loads(raw.decode("utf-8"), parse_constant=_no_constant)
    except UnicodeDecodeError as error:
        _refuse(path, f"not UTF-8 (byte {raw[error.start]:#04x} at {error.start})", place=place)
    except json.JSONDecodeError as error:
        at = place or f"line {error.lineno}"
        _refuse(path, f"not valid JSON: {error.msg} (column {error.colno})", place=at)
    except (ValueError, RecursionError) as error:
        _refuse(path, f"not valid JSON: {_first_line(error)}", place=place)


def _no_constant(word: str) -> NoReturn:
    raise ValueError(f"{word} is not a JSON number")


def _files_in(folder: Path) -> str:
    names = sorted(p.name for p in folder.iterdir() if ".json" in p.name or p.suffix == ".parquet")
    return f"files there: {', '.join(names[:8])}" if names else "name a .jsonl file"


def _first_line(error: BaseException) -> str:
    return str(error).partition("\n")[0] or type(error).__name__


def _refuse(path: Path, problem: str, hint: str = "", place: str = "") -> NoReturn:
    """`rows.jsonl, line 3: not a JSON object`, as whoever reads the rows tells of them."""
    raise RequestError(FIELD, f"{path}{f', {place}' if place else ''}: {problem}", hint)
