"""Plain text columns, the same on a terminal, in a pipe and in a file."""

import unicodedata
from collections.abc import Sequence


def columns(rows: Sequence[Sequence[str]], gap: str = "  ") -> list[str]:
    """One line a row, each column as wide as its widest cell; no trailing blanks."""
    if not rows:
        return []
    widths = [max(width(row[i]) for row in rows) for i in range(len(rows[0]))]
    return [
        gap.join(
            cell + " " * (wide - width(cell)) for cell, wide in zip(row, widths, strict=True)
        ).rstrip()
        for row in rows
    ]


def width(text: str) -> int:
    """Cells of a terminal: wide characters (CJK, emoji) take two, combining ones none."""
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1
        for c in text
    )
