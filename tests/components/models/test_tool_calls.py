import json

import pytest

from agentcompass.components.models._tool_calls import (
    RAW_LIMIT,
    SentCall,
    arguments_sent_back,
    arguments_text,
    read_arguments,
    read_calls,
)


@pytest.mark.parametrize(
    ("sent", "problem"),
    [
        ('{"cmd": "ls"', "not valid JSON"),
        ("[]", "a JSON array"),
        ("null", "a JSON null"),
        ("3", "a JSON number"),
        ("", "empty"),
        (None, "empty"),
        ('"ls"', "a JSON string"),
        ("[" * 100_000, "not valid JSON"),
    ],
)
def test_broken_arguments_are_named_never_invented(sent: object, problem: str) -> None:
    arguments, said = read_arguments(sent)
    assert arguments is None
    assert said is not None
    assert problem in said


def test_an_object_encoded_twice_is_decoded_once_more() -> None:
    assert read_arguments(json.dumps(json.dumps({"a": 1}))) == ({"a": 1}, None)


def test_huge_garbage_is_cut_but_valid_arguments_are_kept_whole() -> None:
    garbage, long = "x" * 2_000_000, json.dumps({"text": "y" * 10_000})
    broken, fine = read_calls([SentCall("1", "f", garbage), SentCall("2", "f", long)])
    assert len(broken.raw_arguments) < RAW_LIMIT + 100
    assert "1998000 characters cut" in broken.raw_arguments
    assert fine.raw_arguments == long


def test_ids_are_unique_and_never_missing() -> None:
    sent = [SentCall(i, "f", "{}") for i in ("a", "a", "a_2", None, "", "call_4")]
    ids = [call.id for call in read_calls(sent)]
    assert len(set(ids)) == len(ids) == 6
    assert ids[0] == "a"


def test_a_call_without_a_name_is_a_problem_and_unknown_names_pass() -> None:
    nameless, unknown = read_calls([SentCall("1", None, "{}"), SentCall("2", "no_such", "{}")])
    assert nameless.arguments is None
    assert nameless.problem == "the call names no tool"
    assert unknown.problem is None


def test_later_turns_show_calls_as_sent_and_broken_ones_as_an_object() -> None:
    spaced, broken = read_calls([SentCall("1", "f", '{ "a":1 }'), SentCall("2", "f", '{"a":')])
    assert arguments_text(spaced) == '{ "a":1 }'
    assert arguments_sent_back(broken) == {"unreadable_arguments": '{"a":'}
    assert json.loads(arguments_text(broken)) == {"unreadable_arguments": '{"a":'}
