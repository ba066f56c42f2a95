"""A parameter model explains itself: type in words, default, meaning."""

from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from pydantic import Field

from agentcompass.components.configuration.parameter_docs import ParameterDoc, parameter_docs
from agentcompass.components.contracts.frozen import Frozen


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Inner(Frozen):
    hosts: tuple[str, ...] = ()
    """Which hosts,
    one a line."""


class Tree(Frozen):
    children: tuple["Tree", ...] = ()


class Allowed(Frozen):
    allow: tuple[str, ...]
    """Only these."""


class Refused(Frozen):
    deny: tuple[str, ...]
    """All but these."""
    log: bool = False


class Hosts(Frozen):
    policy: Literal["all"] | Allowed | Refused = "all"
    maybe: Allowed | None = None
    many: tuple[Allowed | Refused, ...] = ()
    system: Literal["linux"] = "linux"
    kind: Literal["x"]


class Example(Frozen):
    needed: str
    """Has no default."""
    text: str = "é"
    names: tuple[str, ...] | None = None
    limit: Annotated[int, Field(ge=1)] | None = None
    share: Annotated[float, Field(gt=0, le=1)] = 0.5
    mode: Literal["a", "b"] = "a"
    colour: Colour = Colour.RED
    folder: Path = Path("x/y")
    env: Mapping[str, str] = {}
    anything: Mapping[str, Any] = {}
    pair: tuple[int, str] = (1, "a")
    mixed: tuple[int | str, ...] = ()
    word: Annotated[str, Field(min_length=1, pattern="[a-z]+")] = "w"
    none_first: None | bool = None
    inner: Inner = Inner(hosts=("h",))
    maybe: Inner | None = None
    many: tuple[Inner, ...] = ()
    made: list[int] = Field(default_factory=lambda: [1])


DOCS = {doc.name: doc for doc in parameter_docs(Example)}


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("needed", "string"),
        ("names", "list of strings or null"),
        ("limit", "integer ≥ 1 or null"),
        ("share", "number > 0, ≤ 1"),
        ("mode", '"a" or "b"'),
        ("colour", '"red" or "blue"'),
        ("folder", "path"),
        ("env", "object of strings"),
        ("anything", "object"),
        ("pair", "list of [integer, string]"),
        ("mixed", "list of (integer or string)"),
        ("word", "string not empty, matching [a-z]+"),
        ("none_first", "boolean or null"),
        ("inner", "object"),
        ("inner.hosts", "list of strings"),
        ("maybe", "object or null"),
        ("many", "list of objects"),
        ("made", "list of integers"),
    ],
)
def test_types_are_words(name: str, words: str) -> None:
    assert DOCS[name].type == words


@pytest.mark.parametrize(
    ("name", "default"),
    [
        ("needed", "required"),
        ("text", '"é"'),
        ("limit", "null"),
        ("share", "0.5"),
        ("colour", '"red"'),
        ("folder", '"x/y"'),
        ("pair", '[1, "a"]'),
        ("inner", '{"hosts": ["h"]}'),
        ("made", "[1]"),
    ],
)
def test_defaults_are_json(name: str, default: str) -> None:
    assert DOCS[name].default == default


def test_the_docstring_under_a_field_is_its_meaning_on_one_line() -> None:
    assert DOCS["needed"].meaning == "Has no default."
    assert DOCS["inner.hosts"].meaning == "Which hosts, one a line."


def test_nested_models_follow_their_parameter_with_dotted_names() -> None:
    names = [doc.name for doc in parameter_docs(Example)]
    assert names[names.index("inner") + 1] == "inner.hosts"
    assert "maybe.hosts" in names
    assert "many[].hosts" in names


def test_a_model_that_contains_itself_ends() -> None:
    assert parameter_docs(Tree) == (ParameterDoc("children", "list of objects", "[]", ""),)


def test_a_choice_of_objects_names_each_by_the_keys_it_must_have() -> None:
    docs = {doc.name: (doc.type, doc.default) for doc in parameter_docs(Hosts)}
    assert docs["policy"] == ('"all" or {allow: …} or {deny: …}', '"all"')
    assert docs["policy.allow"] == ("list of strings", "required in {allow: …}")
    assert docs["policy.deny"] == ("list of strings", "required in {deny: …}")
    assert docs["policy.log"] == ("boolean", "false")
    assert docs["many"][0] == "list of ({allow: …} or {deny: …})"
    assert docs["many[].deny"] == ("list of strings", "required in {deny: …}")
    # no choice: given or not
    assert docs["maybe"] == ("object or null", "null")
    assert docs["maybe.allow"] == ("list of strings", "required")


def test_what_can_have_one_value_only_is_left_out_unless_it_must_be_given() -> None:
    names = [doc.name for doc in parameter_docs(Hosts)]
    assert "system" not in names
    assert "kind" in names
