"""Rows of facts that fit the terminal: no row wraps, and what matters most stays longest."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agentcompass.components.results.progress_shown import Fact

if TYPE_CHECKING:
    from rich.text import Text

BAR_CELLS = 30
"""At most; a fifth of the width where that is less, and no bar where words need the room."""
NARROW = 50
SEPARATOR = " · "
STYLES = {"plain": "", "score": "bold", "trouble": "yellow"}


@dataclass(frozen=True)
class Row:
    facts: Sequence[Fact]
    share: float | None = None
    """Of what is done: draws a bar before the facts, where there is room for one."""


def fitted(facts: Sequence[Fact], width: int) -> list[tuple[str, Fact]]:
    """The words chosen for each fact, so that all together fit into the width if they can."""
    lengths = [0] * len(facts)
    while True:
        words = [fact.words[length] for fact, length in zip(facts, lengths, strict=True)]
        chosen = [(word, fact) for word, fact in zip(words, facts, strict=True) if word]
        can = [n for n, fact in enumerate(facts) if lengths[n] + 1 < len(fact.words)]
        if _width(chosen) <= width or not can:
            return chosen
        lengths[min(can, key=lambda n: (facts[n].importance, -n))] += 1


def drawn(row: Row, width: int) -> "Text":
    """The row; cut where even the shortest words are too long."""
    from rich.text import Text

    cells = 0 if row.share is None or width < NARROW else min(BAR_CELLS, width // 5)
    chosen = fitted(row.facts, width - cells - (cells > 0))
    text = Text(no_wrap=True, overflow="ellipsis")
    if row.share is not None and cells and _width(chosen) < width - cells:
        full = int(row.share * cells)
        text.append("━" * full, "green").append("┄" * (cells - full), "dim").append(" ")
    for number, (words, fact) in enumerate(chosen):
        text.append(SEPARATOR if number else "", "dim").append(words, STYLES[fact.meaning])
    text.truncate(width, overflow="ellipsis")
    return text


def _width(chosen: Sequence[tuple[str, Fact]]) -> int:
    from rich.cells import cell_len

    return cell_len(SEPARATOR.join(words for words, _ in chosen))
