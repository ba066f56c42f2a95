"""Secrets are masked by value in every text that leaves the client."""

import re
from collections.abc import Iterable

from agentcompass.components.results.masking import Masker

_UNSTORABLE = re.compile("[\0\ud800-\udfff]")


class Masking:
    """As the records are masked, and on one line."""

    def __init__(self, secrets: Iterable[str]) -> None:
        self._masker = Masker(secrets)

    def __call__(self, text: str) -> str:
        return self._masker.text(text)

    def line(self, text: str, limit: int = 300) -> str:
        """Masked, on one line, shortened: in that order, so that no secret is cut in half.

        NUL and half surrogates are replaced: no log and no database takes them.
        """
        flat = " ".join(_UNSTORABLE.sub("\ufffd", self(text)).split())
        return flat if len(flat) <= limit else flat[: limit - 1] + "…"
