"""How one layer of settings goes over another."""

from collections.abc import Mapping
from typing import Any


def merged(under: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Mappings merge key by key; lists and scalars of `over` replace, and so do the policies under
    `network` ({allow: …}, {deny: …}) and the two ways to name an image under `setup`."""
    return _merged(under, over, "")


def _merged(under: Mapping[str, Any], over: Mapping[str, Any], name: str) -> dict[str, Any]:
    """`name`: the key under which they stand; a variable may be called `image`, too."""
    result = dict(under)
    for one, other in (("image", "build"), ("build", "image")) if name == "setup" else ():
        if over.get(one) is not None and other not in over:
            result.pop(other, None)
    for key, value in over.items():
        below = result.get(key)
        whole = name == "network" and isinstance(value, Mapping) and _policy(value)
        if isinstance(below, Mapping) and isinstance(value, Mapping) and not whole:
            value = _merged(below, value, str(key))
        result[key] = value
    return result


def _policy(value: Mapping[str, Any]) -> bool:
    return bool(value) and set(value) <= {"allow", "deny"}
