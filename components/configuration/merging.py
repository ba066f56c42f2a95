"""How one layer of settings goes over another."""

from collections.abc import Mapping
from typing import Any


def deep_merge(under: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Mappings merge key by key; lists and scalars of `over` replace."""
    merged = dict(under)
    for name, value in over.items():
        below = merged.get(name)
        both = isinstance(below, Mapping) and isinstance(value, Mapping)
        merged[name] = deep_merge(below, value) if both else value  # type: ignore[arg-type]
    return merged
