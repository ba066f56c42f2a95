"""Read what a flag such as `--benchmark-params` was given: a JSON value, or `@file`.

Strict where a lenient reader would change a value behind the user's back: keys given twice,
NaN and Infinity, numbers too large to hold and broken text are refused, never repaired.
`@file.yaml` is read by the rules of YAML 1.2 (see `yaml_value`).
"""

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

from agentcompass.components.configuration.showing import may_hold_secret
from agentcompass.components.configuration.yaml_value import read_yaml
from agentcompass.components.contracts.errors import RequestError
from agentcompass.components.contracts.user_path import user_path

_SHOWN = 24  # characters shown on either side of a mistake

_KINDS = {list: "a list", str: "a string", bool: "a truth value", type(None): "null"}


def read_object(text: str, field: str) -> dict[str, Any]:
    """The object written in `text`, or in the file it names with `@`.

    RequestError names the field, the place of the mistake (line and column from 1) and, unless a
    secret may stand there, the text around it.
    """
    value = read_value(text, field)
    if value is None and text.endswith((".yaml", ".yml")):
        return {}  # nothing but comments
    if isinstance(value, dict):
        return value
    kind = _KINDS.get(type(value), "a number")
    source = text if text.startswith("@") else "the value"
    raise RequestError(
        field, f"{source} is {kind}, and an object is needed", 'write it as {"name": value}'
    )


def read_value(text: str, field: str) -> Any:
    """Any JSON value written in `text`, or in the file it names with `@`."""
    return _read_file(text[1:], field) if text.startswith("@") else read_json(text, field)


def read_json(text: str, field: str) -> Any:
    """Any JSON value, strictly."""
    if not text.strip():
        raise RequestError(field, "is empty", "write {} for no parameters")
    refuse = _Refusal(field)
    try:
        value = json.loads(
            text,
            object_pairs_hook=refuse.repeated_keys,
            parse_constant=refuse.constant,
            parse_float=refuse.infinite,
            parse_int=refuse.huge,
        )
    except json.JSONDecodeError as error:
        raise _malformed(text, error, field) from None
    except RecursionError:
        raise RequestError(field, "is nested too deeply") from None
    check_text(value, field)
    return value


def check_text(value: Any, field: str) -> None:
    """Refuse strings that no file can hold: halves of surrogate pairs, bytes that are not UTF-8."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise RequestError(field, "holds text that is not valid Unicode") from None
    except (ValueError, RecursionError):  # an alias in a YAML file that contains itself
        raise RequestError(field, "contains itself") from None


class _Refusal:
    """Hooks of the JSON reader that refuse instead of repairing."""

    def __init__(self, field: str) -> None:
        self.field = field

    def repeated_keys(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        value = dict(pairs)
        if len(value) < len(pairs):
            repeated = next(name for name, n in Counter(name for name, _ in pairs).items() if n > 1)
            raise RequestError(self.field, f"key {repeated!r} is given twice", "keep one")
        return value

    def constant(self, text: str) -> Any:
        raise RequestError(self.field, f"{text} is not a JSON number", "write a finite number")

    def infinite(self, text: str) -> float:
        number = float(text)
        if number in (float("inf"), float("-inf")):
            raise RequestError(self.field, f"the number {text[:40]} is too large")
        return number

    def huge(self, text: str) -> int:
        if len(text) > 40:
            raise RequestError(self.field, f"the number {text[:20]}… is too large")
        return int(text)


def _malformed(text: str, error: json.JSONDecodeError, field: str) -> RequestError:
    problem = f"not valid JSON at line {error.lineno}, column {error.colno}"
    if not may_hold_secret(text):
        before, after = text[: error.pos][-_SHOWN:], text[error.pos :][:_SHOWN]
        place = f"after {before!r} comes {after!r}" if after else f"it ends after {before!r}"
        problem += f": {place if before else f'it starts with {after!r}'}"
    return RequestError(field, problem, _advice(text, error, field))


def _advice(text: str, error: json.JSONDecodeError, field: str) -> str:
    """The likely slip, judged by what stands where the reader stopped."""
    after = text[error.pos :].lstrip()
    before = text[: error.pos].rstrip()
    if before.endswith(",") and after[:1] in ("}", "]") or after[:1] == ",":
        return "remove the trailing comma"
    if after.startswith("'") or text.startswith("'"):
        return "JSON takes double quotes; put single quotes around the whole value for the shell"
    if re.match(r"(True|False|None)\b", after):
        return "JSON writes true, false and null"
    if (
        re.match(r"[+-]?0\d", after)
        or re.search(r"[\[:,\s][+-]?0$", before)
        and after[:1].isdigit()
    ):
        return "a number has no leading zero; put it in double quotes if it is a name"
    if not text.lstrip().startswith(("{", "[")):
        return 'write it as {"name": value}, or name a file: @file.json'
    if '"' not in text and re.search(r"[A-Za-z]", text):
        return f"""the shell took the double quotes; write --{field} '{{"name": value}}'"""
    if error.msg.startswith("Invalid control character"):
        return r"write \n for a line break inside a string"
    if not after:
        return "it is cut short; put single quotes around the whole value for the shell"
    return "put single quotes around the whole value for the shell, or use @file.json"


def _read_file(name: str, field: str) -> Any:
    path = user_path(name, field)
    suffix = path.suffix.lower()
    if suffix not in (".json", ".yaml", ".yml"):
        raise RequestError(
            field, f"@{name} is not a .json, .yaml or .yml file", "name such a file after the @"
        )
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise RequestError(field, f"@{name} is not UTF-8 text (byte {error.start})") from None
    except OSError as error:
        reason = error.strerror or "cannot be read"
        raise RequestError(
            field, f"@{name}: {reason[:1].lower() + reason[1:]}", _other_files(path)
        ) from None
    try:
        if suffix == ".json":
            return read_json(text, field)
        value = read_yaml(text, field)
        check_text(value, field)
        return value
    except RequestError as error:
        raise RequestError(field, f"@{name}: {error.problem}", error.hint) from None


def _other_files(path: Path) -> str:
    folder = path.parent
    if not folder.is_dir():
        return f"there is no folder {str(folder)!r}"
    names = sorted(p.name for p in folder.glob("*") if p.suffix in (".json", ".yaml", ".yml"))
    return (
        f"in {str(folder.resolve())!r} there are: {', '.join(names[:8])}"
        if names
        else (f"looked in {str(folder.resolve())!r}")
    )
