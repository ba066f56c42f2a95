import pytest
from pydantic import ValidationError

from agentcompass.components.contracts.errors import RequestError
from agentcompass.components.models._parameters import ModelParameters
from tests.components.models.conversations import provider


@pytest.mark.parametrize(
    "wrong",
    [
        {"temprature": 0.5},
        {"timeout": 0},
        {"timeout": float("inf")},
        {"max_tokens": 0},
        {"prices": {"input": 1}},
        {"extra_body": {"stream": True}},
        {"extra_body": {"model": "x"}},
    ],
)
def test_wrong_parameters_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        ModelParameters.model_validate(wrong)


def test_every_parameter_is_documented() -> None:
    for name, field in ModelParameters.model_fields.items():
        assert field.description, name


@pytest.mark.parametrize(
    ("protocol", "parameters", "named"),
    [
        ("openai-responses", {"seed": 0}, "seed"),
        ("openai-responses", {"stop": ["x"]}, "stop"),
        ("anthropic-messages", {"seed": 1}, "seed"),
        ("openai-chat", {"reasoning": {"budget_tokens": 5}}, "reasoning.budget_tokens"),
    ],
)
def test_what_a_protocol_lacks_is_refused_not_ignored(
    protocol: str, parameters: dict[str, object], named: str
) -> None:
    with pytest.raises(RequestError, match=f"model-params.{named}: {protocol}"):
        provider(protocol, "http://h", **parameters)
