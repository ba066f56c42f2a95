import pytest

from agentcompass.components.configuration.secrets import HELD_KEY, HELD_VARIABLE, holding
from agentcompass.components.configuration.variables import read_inside, resolved
from agentcompass.components.contracts.errors import RequestError


def test_a_value_that_is_a_reference_is_read_from_the_shell() -> None:
    given = {"A": "${B}", "C": "plain", "D": "x${B}", "E": "$B", "F": ""}
    shell = {"B": "value of b"}
    expected = {"A": "value of b", "C": "plain", "D": "x${B}", "E": "$B", "F": ""}
    assert resolved(given, shell) == expected


def test_a_reference_inside_of_a_user_s_text_is_read_and_a_whole_one_stays() -> None:
    given = {"URL": "http://${HOST}:${PORT}/x", "WHOLE": "${HOST}", "D": "$HOST", "E": ""}
    shell = {"HOST": "proxy", "PORT": "3128"}
    assert read_inside(given, shell) == {**given, "URL": "http://proxy:3128/x"}
    with pytest.raises(RequestError, match=r"env-params\.env\.URL: variable PORT is not set"):
        read_inside(given, {"HOST": "proxy"})


def test_a_variable_set_to_nothing_is_set() -> None:
    assert resolved({"A": "${B}"}, {"B": ""}) == {"A": ""}


def test_an_unset_variable_is_named_with_its_field() -> None:
    with pytest.raises(RequestError) as caught:
        resolved({"KEY": "${MISSING}"}, {})
    assert caught.value.field == "env-params.env.KEY"
    assert caught.value.problem == "variable MISSING is not set"


@pytest.mark.parametrize("name", ["", "A=B", "A\0"])
def test_a_name_no_shell_could_set_is_refused(name: str) -> None:
    with pytest.raises(RequestError, match="variable's name"):
        resolved({name: "x"}, {})


def test_a_value_with_a_nul_is_refused() -> None:
    with pytest.raises(RequestError, match="NUL"):
        resolved({"A": "x\0y"}, {})


def test_a_typed_value_is_read_before_the_shell_and_the_model_s_key_never() -> None:
    typed, shell = HELD_VARIABLE + "ENV_KEY", {HELD_KEY: "from the shell"}
    with holding({typed: "typed", HELD_KEY: "the model's"}):
        given = {"A": f"${{{typed}}}", "B": f"${{{HELD_KEY}}}"}
        assert resolved(given, {**shell, typed: "x"}) == {"A": "typed", "B": "from the shell"}
    with pytest.raises(RequestError, match="env-params.env.A: its value was typed"):
        resolved(given, shell)
