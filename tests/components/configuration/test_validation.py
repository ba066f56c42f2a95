import re
from typing import Annotated, Any

import pytest
from pydantic import AfterValidator, BaseModel

from agentcompass.components.configuration.validation import validate
from agentcompass.components.contracts.errors import RequestError
from agentcompass.components.contracts.parameters import BenchmarkParameters, EnvironmentParameters
from agentcompass.components.contracts.run import ExecutionSettings, SecretReference


def _even(number: int) -> int:
    if number == 5:
        raise ValueError("5 is too odd")
    if number == 7:
        raise AssertionError("no sevens")
    if number % 2:
        raise ValueError("not an even number")
    return number


class Judged(BaseModel):
    number: Annotated[int, AfterValidator(_even)]


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"limt": 3}, r"benchmark-params\.limt: unknown key; did you mean 'limit'\?"),
        ({"limit": "3"}, r"benchmark-params\.limit: .*integer, not '3'"),
        ({"limit": True}, r"benchmark-params\.limit: .*integer, not True"),
        ({"limit": 0}, r"benchmark-params\.limit: .*greater than or equal to 1, not 0"),
        ({"sample_ids": "a"}, r"benchmark-params\.sample_ids: "),
        ({"sample_ids": ["a", 3]}, r"benchmark-params\.sample_ids\.1: .*string, not 3"),
        ({"unscored": "one"}, r"benchmark-params\.unscored: .*'zero' or 'exclude', not 'one'"),
        ({"limit": 0, "seed": "x"}, r"also wrong: benchmark-params\.seed"),
    ],
)
def test_one_line_names_the_field_and_the_way_out(values: dict[str, object], said: str) -> None:
    with pytest.raises(RequestError, match=said) as caught:
        validate(BenchmarkParameters, values, "benchmark-params")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({"run_env": ["GH_TOKEN=canary"]}, "run_env"),
        ({"env": {"PIN": ["canary"]}}, "env.PIN"),
        ({"evaluation_env": "canary"}, "evaluation_env"),
        ({"setup": {"image": "a b", "build": "http://me:canary@h"}}, "setup"),
        ({"user": ["ghp_canary0123456789abcdef"]}, "user"),
    ],
)
def test_what_may_hold_a_secret_is_named_and_not_shown(values: Any, field: str) -> None:
    with pytest.raises(RequestError) as refused:
        validate(EnvironmentParameters, values, "env-params")
    assert refused.value.field.startswith(f"env-params.{field}")
    assert "canary" not in str(refused.value)


def test_nested_keys_are_named_in_full() -> None:
    with pytest.raises(RequestError, match=r"execution-params\.attempts\.kk: unknown key"):
        validate(ExecutionSettings, {"attempts": {"kk": 2}}, "execution-params")


@pytest.mark.parametrize(
    ("model", "values", "said"),
    [
        (ExecutionSettings, {"retry_pattern_list": ["("]}, "not a regular expression"),
        (SecretReference, {}, "give a variable"),
        (Judged, {"number": 3}, "not an even number (given: 3)"),
        (Judged, {"number": 5}, "5 is too odd"),
        (Judged, {"number": 7}, "no sevens"),
    ],
)
def test_a_validators_own_words_stand_alone(
    model: type[BaseModel], values: dict[str, object], said: str
) -> None:
    with pytest.raises(RequestError) as caught:
        validate(model, values, "p")
    assert re.fullmatch(rf"p(\.\w+)*: {re.escape(said)}.*", str(caught.value))


def test_lists_become_tuples_and_integers_floats() -> None:
    parameters = validate(BenchmarkParameters, {"sample_ids": ["a"]}, "p")
    assert parameters.sample_ids == ("a",)
    assert validate(ExecutionSettings, {"timeout_multiplier": 2}, "p").timeout_multiplier == 2.0
