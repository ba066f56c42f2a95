"""Components that installed distributions bring, by entry points in `agentcompass.<family>`."""

import importlib.util
import sys
from functools import lru_cache
from importlib.machinery import PathFinder
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path

from agentcompass.components.registry.listing import Family, Listing, summary


def installed(family: Family) -> tuple[Listing, ...]:
    """None of their code is run."""
    return _listings(family, tuple((folder, _changed(folder)) for folder in sys.path))


@lru_cache(maxsize=32)
def _listings(family: Family, places: tuple[tuple[str, float], ...]) -> tuple[Listing, ...]:
    """Read again once something was installed: reading all metadata takes a while."""
    return tuple(_listing(entry) for entry in entry_points(group=f"agentcompass.{family}"))


def _changed(folder: str) -> float:
    try:
        return Path(folder or ".").stat().st_mtime
    except OSError:
        return 0.0


def _listing(entry: EntryPoint) -> Listing:
    module, _, attribute = entry.value.partition(":")
    name, version = (entry.dist.name, entry.dist.version) if entry.dist else ("unknown", "")
    source = _source(module.strip())
    return Listing(
        id=entry.name,
        origin=f"{name} {version}".strip(),
        summary=(summary(source) if source else "") or f"from {name}",
        module=f"{module.strip()}:{attribute.strip() or 'COMPONENT'}",
        distribution=name,
    )


def _source(module: str) -> Path | None:
    """The file of a module, found without importing its parents; None where that cannot be."""
    top, *inner = module.split(".")
    try:
        spec = importlib.util.find_spec(top)
        for depth, _ in enumerate(inner, 2):
            if spec is None:
                return None
            path = spec.submodule_search_locations
            spec = PathFinder.find_spec(".".join(module.split(".")[:depth]), path)
    except (ImportError, ValueError):  # a half-broken installation; loading it says what is wrong
        return None
    return Path(spec.origin) if spec and spec.origin and spec.has_location else None
