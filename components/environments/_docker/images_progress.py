"""A pull's progress, summed over its layers and told now and then."""

import time
from collections.abc import Callable
from typing import Any

_EVERY_SECONDS = 10.0
_MB = 1_000_000


class PullProgress:
    """`see` runs in the thread that reads, `tell` in the event loop's."""

    def __init__(self, name: str, note: Callable[[str], None]) -> None:
        self._name, self._note = name, note
        self._loaded: dict[str, tuple[int, int]] = {}
        self._status = "waiting for the registry"
        self._next = time.monotonic() + _EVERY_SECONDS

    def see(self, event: dict[str, Any]) -> None:
        status, layer = str(event.get("status", "")), event.get("id")
        detail = event.get("progressDetail") or {}
        if status == "Downloading" and layer and detail.get("total"):
            self._loaded[layer] = (int(detail.get("current") or 0), int(detail["total"]))
        elif status in ("Download complete", "Pull complete") and layer in self._loaded:
            total = self._loaded[layer][1]
            self._loaded[layer] = (total, total)
        if status:
            self._status = status.lower()

    def tell(self) -> None:
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + _EVERY_SECONDS
        layers = list(self._loaded.values())
        done, total = (sum(part) / _MB for part in zip(*layers, strict=True)) if layers else (0, 0)
        amount = f"{done:.0f} of {total:.0f} MB, " if total else ""
        self._note(f"pulling image {self._name}: {amount}{self._status}")
