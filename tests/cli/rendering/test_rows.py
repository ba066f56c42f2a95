"""What a display looks like at any width: see golden_rows.txt, and look at it when it changes.

`python -m tests.cli.rendering.test_rows` from the repository's root writes it anew.
"""

from pathlib import Path

import pytest

from agentcompass.cli.rendering.progress import RunView
from agentcompass.cli.rendering.rows import Row, drawn, fitted
from agentcompass.components.results.progress_shown import Fact
from tests.cli.rendering import shown

GOLDEN = Path(__file__).with_name("golden_rows.txt")
STATES = {
    "just begun": shown.just_begun,
    "busy": shown.busy,
    "huge": shown.huge_run,
    "over": shown.over,
    "interrupted": shown.interrupted,
}
WIDTHS = (40, 60, 100, 200)


def looks() -> str:
    parts = []
    for name, state in STATES.items():
        for width in WIDTHS:
            rows = [drawn(row, width - 1).plain for row in RunView(state()).rows()]
            parts += [f"--- {name}, {width} columns", *rows, ""]
    return "\n".join(parts)


def test_the_display_looks_as_ever() -> None:
    assert looks() == GOLDEN.read_text(encoding="utf-8")


@pytest.mark.parametrize("width", [1, 10, 39, 59, 60, 80, 100, 200, 500])
def test_no_row_wraps_and_there_are_as_many_at_any_time(width: int) -> None:
    for state in STATES.values():
        rows = [drawn(row, width) for row in RunView(state()).rows()]
        assert len(rows) == 4
        assert all(row.cell_len <= width for row in rows)
        assert width < 39 or not any("…" in row.plain for row in rows)


def test_at_sixty_columns_nothing_that_matters_is_lost() -> None:
    text = "\n".join(drawn(row, 59).plain for row in RunView(shown.busy()).rows())
    for fact in ("21/50 attempts done", "8 running", "21 queued", "0.571", "0.313 to 0.832",
                 "14 scored", "6 unscored: environment 4, grader 1, model 1", "$0.50+", "1:15",
                 "about 4 min left"):  # fmt: skip
        assert fact in text


def test_the_least_important_is_shortened_first_and_the_last_of_equals() -> None:
    facts = [Fact(("aaaa", "a"), 2), Fact(("bbbb", "b"), 2), Fact(("cccc", "c", ""), 1)]
    said = [[words for words, _ in fitted(facts, width)] for width in (18, 15, 12, 11, 8, 1)]
    assert said == [
        ["aaaa", "bbbb", "cccc"],
        ["aaaa", "bbbb", "c"],
        ["aaaa", "bbbb"],
        ["aaaa", "bbbb"],
        ["aaaa", "b"],
        ["a", "b"],
    ]


def test_wide_characters_count_as_two() -> None:
    assert drawn(Row([Fact(("漢字漢字漢字",))]), 7).cell_len <= 7


if __name__ == "__main__":
    GOLDEN.write_text(looks(), encoding="utf-8")
