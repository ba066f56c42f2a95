"""Hints for misspelt names."""

import difflib
from collections.abc import Iterable


def nearest(word: str, known: Iterable[str]) -> str:
    """A hint with the nearest known spellings, or the known names when none is near."""
    names = sorted(known)
    by_lower = {name.lower(): name for name in names}
    close = difflib.get_close_matches(word.strip().lower(), by_lower, n=3, cutoff=0.6)
    if close:
        return "did you mean " + " or ".join(repr(by_lower[name]) for name in close) + "?"
    if not names:
        return "there are none"
    return "known: " + ", ".join(names[:20]) + (", …" if len(names) > 20 else "")
