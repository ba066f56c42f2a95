from agentcompass.cli.rendering.columns import columns, width


def test_columns_are_as_wide_as_their_widest_cell() -> None:
    assert columns([("a", "bb", "c"), ("ddd", "e", "")]) == ["a    bb  c", "ddd  e"]


def test_wide_characters_take_two_cells() -> None:
    assert width("漢字🙂") == 6
    assert width("e\u0301") == 1
    assert columns([("漢", "x"), ("ab", "y")]) == ["漢  x", "ab  y"]


def test_nothing_is_nothing() -> None:
    assert columns([]) == []
