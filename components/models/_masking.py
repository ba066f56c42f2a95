"""Secrets are masked by value in every text that leaves the client."""

import json
import re
from collections.abc import Iterable
from urllib.parse import quote

MASK = "***"
_UNSTORABLE = re.compile("[\0\ud800-\udfff]")
_SHORTEST = 4  # masking shorter values would garble every text and hide nothing


class Masking:
    def __init__(self, secrets: Iterable[str | None]) -> None:
        values = {s for s in secrets if s and len(s) >= _SHORTEST}
        spellings = values | {quote(s, safe="") for s in values}
        spellings |= {json.dumps(s)[1:-1] for s in values}
        self._spellings = sorted(spellings, key=len, reverse=True)

    def __call__(self, text: str) -> str:
        for spelling in self._spellings:
            text = text.replace(spelling, MASK)
        return text

    def line(self, text: str, limit: int = 300) -> str:
        """Masked, on one line, shortened: in that order, so that no secret is cut in half.

        NUL and half surrogates are replaced: no log and no database takes them.
        """
        flat = " ".join(_UNSTORABLE.sub("\ufffd", self(text)).split())
        return flat if len(flat) <= limit else flat[: limit - 1] + "…"
