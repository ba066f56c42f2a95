from agentcompass.components.models._masking import Masking


def test_values_are_masked_in_every_spelling_and_before_cutting() -> None:
    mask = Masking(["se/cret+key", "", "abc"])
    assert mask("key se/cret+key or se%2Fcret%2Bkey") == "key *** or ***"
    assert mask("abc") == "abc"  # too short to hide anything
    line = mask.line("x" * 295 + " se/cret+key\nmore", limit=300)
    assert "se/" not in line
    assert "\n" not in line
    assert len(line) == 300
