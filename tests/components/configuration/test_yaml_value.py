"""YAML means what version 1.2 says, and nothing that JSON cannot hold."""

import pytest

from agentcompass.components.configuration.yaml_value import read_yaml
from agentcompass.components.contracts.errors import RequestError


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("on", "on"),
        ("no", "no"),
        ("Yes", "Yes"),
        ("y", "y"),
        ("true", True),
        ("False", False),
        ("~", None),
        ("", None),
        ("null", None),
        ('"null"', "null"),
        ("1e-5", 1e-5),
        ("1.e3", 1000.0),
        (".5", 0.5),
        ("-7", -7),
        ("+3", 3),
        ("0o17", 15),
        ("0x1F", 31),
        ("1_000", "1_000"),
        ("1:30", "1:30"),
        ("2020-01-01", "2020-01-01"),
        ('"007"', "007"),
        ("1.2.3", "1.2.3"),
        ("[1, 2.0, x]", [1, 2.0, "x"]),
        ("{b: {c: no}}", {"b": {"c": "no"}}),
    ],
)
def test_scalars_follow_the_core_schema(text: str, value: object) -> None:
    found = read_yaml(f"a: {text}\n", "p")
    assert found == {"a": value}
    assert type(found["a"]) is type(value)


def test_merge_keys_are_plain_keys() -> None:
    assert read_yaml("<<: {a: 1}\nb: =\n", "p") == {"<<": {"a": 1}, "b": "="}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a: 007", "line 1, column 4: 007 has a leading zero"),
        ("a: .inf", "'.inf' is not a finite number"),
        ("a: .NaN", "'.NaN' is not a finite number"),
        ("a: 1e999", "not a finite number"),
        ("a: 1\nb: 2\na: 3", "line 3, column 1: key 'a' is given twice"),
        ("1: x", "the key 1 is no string"),
        ("true: x", "the key True is no string"),
        ("? [a]\n: b", "is no string"),
        ("a: !!set {b}", "tag"),
        ("a: !!python/object/apply:os.system [x]", "tag"),
        ("a: !!int x", "not an integer"),
        ("a: {b:1}", "line 1, column 5: 'b:1' has no value; put a blank after the colon"),
        ("a: [1", "line 1, column"),
        ("a: b: c", "line 1, column 5"),
        ("a: 1\n---\nb: 2", "another document"),
        ("a: &x [*x]", "recursive"),
        ("a: \x00", "not valid YAML"),
        ("a: " + "[" * 5000, "nested too deeply"),
    ],
)
def test_what_could_be_misread_is_refused_with_its_place(text: str, problem: str) -> None:
    with pytest.raises(RequestError) as caught:
        read_yaml(text, "p")
    assert problem in caught.value.problem
    assert "\n" not in str(caught.value)
