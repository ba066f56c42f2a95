"""Values of a submission as plain JSON data, so that nothing of its code reaches the judge.

Runs inside the sandbox (Python 3.8 or newer, standard library only), in both processes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

ITEM_LIMIT = 200_000


def encode(value: Any) -> Any:
    """JSON for plain Python data. Subclasses are reduced to their built-in type."""
    if value is None or value is True or value is False:
        return value
    if isinstance(value, str):
        return ["s", str.__str__(value)]
    if isinstance(value, int):
        return ["i", hex(int.__int__(value))]
    if isinstance(value, float):
        return ["f", float.__repr__(value)]
    if isinstance(value, complex):
        return ["c", float.__repr__(value.real), float.__repr__(value.imag)]
    if isinstance(value, list):
        return ["l", [encode(item) for item in list.__iter__(value)]]
    if isinstance(value, tuple):
        return ["t", [encode(item) for item in tuple.__iter__(value)]]
    if isinstance(value, set):
        return ["S", [encode(item) for item in set.__iter__(value)]]
    if isinstance(value, frozenset):
        return ["F", [encode(item) for item in frozenset.__iter__(value)]]
    if isinstance(value, dict):
        return ["d", [[encode(k), encode(v)] for k, v in dict.items(value)]]
    if isinstance(value, (bytes, bytearray)):
        return ["b" if isinstance(value, bytes) else "B", bytes(value).decode("latin-1")]
    if type(value) is range:
        return ["r", value.start, value.stop, value.step]
    return encode_other(value)


def encode_other(value: Any) -> Any:
    name = type(value).__module__ + "." + type(value).__name__
    if name == "fractions.Fraction":
        return ["q", hex(value.numerator), hex(value.denominator)]
    if name == "decimal.Decimal":
        return ["D", str(value)]
    if name in ("builtins.dict_keys", "builtins.dict_items"):
        return ["F", [encode(item) for item in value]]
    if name.startswith("numpy.") and hasattr(value, "item") and getattr(value, "ndim", 1) == 0:
        return encode(value.item())
    if hasattr(value, "__next__"):
        items = []
        for item in value:
            items.append(encode(item))
            if len(items) > ITEM_LIMIT:
                return ["o", "an endless iterator"]
        return ["I", items]
    return ["o", "<" + name + ">"]


def decode(value: Any) -> Any:
    if not isinstance(value, list):
        return value
    tag, rest = value[0], value[1:]
    if tag in PLAIN:
        return PLAIN[tag](*rest)
    if tag == "d":
        return {decode(k): decode(v) for k, v in rest[0]}
    items = [decode(item) for item in rest[0]]
    return items if tag == "l" else CONTAINERS[tag](items)


def fraction(numerator: str, denominator: str) -> Any:
    from fractions import Fraction

    return Fraction(int(numerator, 16), int(denominator, 16))


def decimal(text: str) -> Any:
    from decimal import Decimal

    return Decimal(text)


class Opaque:
    """A value of the submission that is no plain data. Equal to nothing."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __eq__(self, other: object) -> bool:
        return False

    def __hash__(self) -> int:
        return id(self)

    def __repr__(self) -> str:
        return self.text


PLAIN: dict[str, Callable[..., Any]] = {
    "s": str,
    "i": lambda text: int(text, 16),
    "f": float,
    "c": lambda real, imag: complex(float(real), float(imag)),
    "b": lambda text: text.encode("latin-1"),
    "B": lambda text: bytearray(text.encode("latin-1")),
    "r": range,
    "q": fraction,
    "D": decimal,
    "o": Opaque,
}
CONTAINERS: dict[str, Callable[[list[Any]], Any]] = {
    "t": tuple,
    "S": set,
    "F": frozenset,
    "I": iter,
}
