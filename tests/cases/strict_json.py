"""JSON as the strictest reader takes it."""

import json
import math
from collections.abc import Iterator
from typing import Any, NoReturn


def strict(text: str) -> Any:
    """The JSON document as a reader takes it that knows no NaN, NUL or lone surrogate."""

    def refuse(constant: str) -> NoReturn:
        raise AssertionError(f"{constant} is not JSON")

    document = json.loads(text, parse_constant=refuse)
    for leaf in _leaves(document):
        if isinstance(leaf, str):
            leaf.encode("utf-8")
            assert "\0" not in leaf
        assert not isinstance(leaf, float) or math.isfinite(leaf)
    return document


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        for key, part in value.items():
            yield key
            yield from _leaves(part)
    elif isinstance(value, list):
        for part in value:
            yield from _leaves(part)
    else:
        yield value
