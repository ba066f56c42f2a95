"""How one layer of settings goes over another."""

from collections.abc import Mapping
from typing import Any


def merged(under: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Mappings merge key by key; lists and scalars of `over` replace, and so do network policies
    ({allow: …}, {deny: …}) and the two ways to name an image."""
    result = dict(under)
    for one, other in (("image", "build"), ("build", "image")):
        if over.get(one) is not None and other not in over:
            result.pop(other, None)
    for key, value in over.items():
        below = result.get(key)
        deep = isinstance(below, Mapping) and isinstance(value, Mapping) and not _policy(value)
        result[key] = merged(below, value) if deep else value  # type: ignore[arg-type]
    return result


def _policy(value: Mapping[str, Any]) -> bool:
    return bool(value) and set(value) <= {"allow", "deny"}
