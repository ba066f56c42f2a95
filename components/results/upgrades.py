"""Stored records of older versions become current ones by pure functions, version by version.

To change a stored model: raise its `schema_version`, add here the function from the version
before, and keep the old golden file in `tests/golden` beside a new one. A reader upgrades in
memory only; the file on disk stays as it was written.
"""

from collections.abc import Callable, Mapping
from typing import Any, Literal

Kind = Literal["run", "progress", "detail", "checkpoint", "trajectory", "metrics", "rescored"]
Version = int | str
Document = dict[str, Any]
Upgrade = Callable[[Document], Document]
"""Takes a document of one version, returns a new one that states the next version."""

CURRENT: Mapping[Kind, Version] = {
    "run": 1,
    "progress": 2,
    "detail": 2,
    "checkpoint": 2,
    "trajectory": "ATIF-v1.8",
    "metrics": 2,
    "rescored": 1,
}


def _checkpoint_1(document: Document) -> Document:
    """2 adds `image`."""
    return {**document, "schema_version": 2}


def _detail_1(document: Document) -> Document:
    """2 adds `image` to attempts."""
    attempts = [{**attempt, "schema_version": 2} for attempt in document.get("attempts", ())]
    return {**document, "schema_version": 2, "attempts": attempts}


def _progress_1(document: Document) -> Document:
    """2 adds `pausing`, `taken_over`, `score`, `interval95` and `expected_seconds_left`."""
    return {**document, "schema_version": 2}


def _metrics_1(document: Document) -> Document:
    """2 adds `taken_over` and `own_usage`."""
    return {**document, "schema_version": 2}


UPGRADES: Mapping[tuple[Kind, Version], Upgrade] = {
    ("checkpoint", 1): _checkpoint_1,
    ("detail", 1): _detail_1,
    ("progress", 1): _progress_1,
    ("metrics", 1): _metrics_1,
}
"""By kind and the version they start from. Version 1 is the first of every kind."""


def upgrade(
    kind: Kind,
    document: Document,
    *,
    current: Mapping[Kind, Version] = CURRENT,
    upgrades: Mapping[tuple[Kind, Version], Upgrade] = UPGRADES,
) -> Document:
    """The document in the current version. Raises UnknownVersion if no upgrade leads there."""
    seen: set[Version] = set()
    while True:
        version = document.get("schema_version")
        if isinstance(version, bool) or not isinstance(version, int | str) or version in seen:
            raise UnknownVersion(kind, version, current[kind])
        if version == current[kind]:
            return document
        if (kind, version) not in upgrades:
            raise UnknownVersion(kind, version, current[kind])
        seen.add(version)  # an upgrade that leads nowhere must not run for ever
        document = upgrades[kind, version](document)


class UnknownVersion(Exception):
    """A record states a version this program cannot read (a newer one, or none)."""

    def __init__(self, kind: Kind, found: object, current: Version) -> None:
        super().__init__(
            f"schema_version {found!r} of this {kind} record is unknown "
            f"(this AgentCompass reads up to {current!r}): a newer AgentCompass may read it"
        )
        self.kind, self.found, self.current = kind, found, current

    def __reduce__(self) -> tuple[type, tuple[Any, ...]]:
        return type(self), (self.kind, self.found, self.current)
