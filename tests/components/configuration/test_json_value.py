"""What the JSON flags accept, what they refuse, and that nothing is changed on the way."""

import json
from pathlib import Path

import pytest

from agentcompass.components.configuration.json_value import read_json, read_object
from agentcompass.components.contracts.errors import RequestError

FIELD = "benchmark-params"


def refusal(text: str) -> RequestError:
    with pytest.raises(RequestError) as caught:
        read_object(text, FIELD)
    assert caught.value.field == FIELD
    assert "\n" not in str(caught.value)
    return caught.value


@pytest.mark.parametrize(
    "value",
    [
        {},
        {"url": "http://{host}:1/v1?a=b,c"},
        {"until": "Bob's", "temperature": 0.5},
        {"a": {"b": [1, "x,y"]}},
        {"n": -1, "x": 1e-05, "v": None, "w": "null", "on": "no", "rev": "007"},
        {"emoji": "🙂", "cjk": "漢字", "escaped": '"\\\n'},
    ],
)
def test_an_object_comes_through_unchanged(value: dict[str, object]) -> None:
    assert read_object(json.dumps(value), FIELD) == value


def test_a_small_number_is_a_number() -> None:
    assert read_object('{"x": 1e-5}', FIELD) == {"x": 0.00001}


@pytest.mark.parametrize(
    ("text", "place", "advice"),
    [
        ("{limit: 1}", "line 1, column 2: after '{' comes 'limit: 1}'", "double quotes"),
        ('{"a": 1,}', "line 1, column 9", "trailing comma"),
        ('{"a": [1, 2,]}', "line 1, column 13", "trailing comma"),
        ("{'a': 1}", "line 1, column 2", "JSON takes double quotes"),
        ('{"a": True}', "line 1, column 7", "true, false and null"),
        ('{"rev": 007}', "line 1, column 10", "leading zero"),
        ('{"a": 1', "it ends after", "cut short"),
        ('{"a": "x\ny"}', "line 1, column 9", "\\n"),
        ('{\n  "a": 1\n  "b": 2\n}', "line 3, column 3", "@file.json"),
        ('{"a": 1} }', "line 1, column 10", "single quotes"),
        ("limit=1", "line 1, column 1: it starts with 'limit=1'", 'write it as {"name": value}'),
    ],
)
def test_malformed_json_shows_the_place_and_the_way_out(text: str, place: str, advice: str) -> None:
    error = refusal(text)
    assert place in error.problem
    assert advice in error.hint


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("[1]", "a list"),
        ("3", "a number"),
        ("2.5", "a number"),
        ('"text"', "a string"),
        ("true", "a truth value"),
        ("null", "null"),
    ],
)
def test_a_value_that_is_no_object_is_refused_by_its_kind(text: str, kind: str) -> None:
    assert f"is {kind}" in refusal(text).problem


@pytest.mark.parametrize("text", ["", "   "])
def test_an_empty_value_is_refused(text: str) -> None:
    assert refusal(text).problem == "is empty"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('{"a": 1, "a": 2}', "key 'a' is given twice"),
        ('{"outer": {"b": 1, "c": 2, "b": 1}}', "key 'b' is given twice"),
        ('{"a": NaN}', "NaN is not a JSON number"),
        ('{"a": -Infinity}', "-Infinity is not a JSON number"),
        ('{"a": 1e999}', "too large"),
        ('{"a": ' + "9" * 5000 + "}", "too large"),
        ('{"a": "\\ud800"}', "not valid Unicode"),
        ('{"a": ' + "[" * 100_000, "nested too deeply"),
    ],
)
def test_what_a_lenient_reader_would_change_is_refused(text: str, problem: str) -> None:
    assert problem in refusal(text).problem


def test_a_mistake_near_a_secret_shows_the_place_and_not_the_text() -> None:
    error = refusal('{"headers": {"Authorization": "Bearer sk-very-secret"},}')
    assert "line 1, column 56" in error.problem
    assert "secret" not in str(error)


@pytest.mark.parametrize(
    "text",
    [
        '{"evaluation_env": {"A": "canary"},}',
        '{"run_env": {"A": "canary"},}',
        '{"HF_TOKEN": "canary",}',
        '{"GH_TOKEN": "canary",}',
        '{"proxy": "http://me:canary@h",}',
        '{"url": "http://h/v1?code=canary",}',
        '{"x": "ghp_canary0123456789abcdef",}',
    ],
)
def test_a_mistake_near_what_may_be_a_secret_shows_no_text(text: str) -> None:
    assert "canary" not in str(refusal(text))


def test_a_mistake_near_a_number_of_tokens_is_shown() -> None:
    assert "'{\"max_tokens\": 3,'" in str(refusal('{"max_tokens": 3,}'))


def test_files_are_read_by_their_suffix(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('\ufeff{"limit": 2}', encoding="utf-8")
    (tmp_path / "a.yaml").write_text("limit: 2\n", encoding="utf-8")
    (tmp_path / "a.YML").write_text("limit: 2\n", encoding="utf-8")
    for name in ("a.json", "a.yaml", "a.YML"):
        assert read_object(f"@{tmp_path / name}", FIELD) == {"limit": 2}


def test_a_missing_file_names_the_files_that_are_there(tmp_path: Path) -> None:
    (tmp_path / "params.json").write_text("{}", encoding="utf-8")
    error = refusal(f"@{tmp_path}/parms.json")
    assert "no such file" in error.problem
    assert "params.json" in error.hint


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    assert "there is no folder" in refusal(f"@{tmp_path}/nowhere/a.json").hint


@pytest.mark.parametrize("name", ["-", "", "a.txt", "folder"])
def test_a_file_of_another_kind_is_refused(name: str) -> None:
    assert "not a .json, .yaml or .yml file" in refusal(f"@{name}").problem


def test_a_folder_and_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    (tmp_path / "folder.json").mkdir()
    assert "is a directory" in refusal(f"@{tmp_path}/folder.json").problem
    (tmp_path / "latin.json").write_bytes(b'{"a": "\xe9"}')
    assert "not UTF-8 text (byte 7)" in refusal(f"@{tmp_path}/latin.json").problem


def test_a_mistake_in_a_file_names_file_and_place(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{\n "a": 1,\n}', encoding="utf-8")
    (tmp_path / "a.yaml").write_text("a: 1\nb: [1\n", encoding="utf-8")
    assert "a.json: not valid JSON at line 3, column 1" in refusal(f"@{tmp_path}/a.json").problem
    assert "a.yaml: not valid YAML at line 3, column 1" in refusal(f"@{tmp_path}/a.yaml").problem


def test_read_json_takes_any_value() -> None:
    assert read_json('["openai-chat"]', "model-api-protocol") == ["openai-chat"]
