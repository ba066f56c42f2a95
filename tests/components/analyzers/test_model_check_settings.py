"""What may be asked for under `model_check`, and what is refused before anything is done."""

import json
from pathlib import Path
from typing import Any

import pytest

from agentcompass.components.contracts.analysis import ModelCheck
from agentcompass.components.contracts.errors import RequestError
from agentcompass.components.execution.analysis import check_params

SPEC: dict[str, Any] = {"id": "judge-1", "base_url": "http://127.0.0.1:1/v1"}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (3, "analysis-params.model_check: is not an object"),
        ({}, "analysis-params.model_check.model: field required"),
        ({"model": "judge-1"}, "analysis-params.model_check.model: "),
        ({"model": {}}, "analysis-params.model_check.model.id: field required"),
        ({"model": {"id": "judge-1"}}, "analysis-params.model_check.model.base_url: is not an add"),
        ({"model": {**SPEC, "id": ""}}, "analysis-params.model_check.model.id: is empty"),
        (
            {"model": {**SPEC, "api_key": "sk-plain-text-key"}},
            "analysis-params.model_check.model.api_key: would be stored with the run; write",
        ),
        (
            {"model": {**SPEC, "api_key": {"block": "judge"}}},
            "analysis-params.model_check.model.api_key: a Secret block holds the run's own key",
        ),
        (
            {"model": {**SPEC, "base_url": "http://me:sk-plain-text-key@127.0.0.1/v1"}},
            "analysis-params.model_check.model.base_url: holds a secret",
        ),
        (
            {"model": {**SPEC, "params": {"headers": {"x-key": "sk-plain-text-key"}}}},
            "analysis-params.model_check.model.params.headers: holds a secret",
        ),
        (
            {"model": {**SPEC, "params": {"headers": "sk-plain-text-key"}}},
            "analysis-params.model_check.model.params.headers: is not an object",
        ),
        (
            {"model": {**SPEC, "params": {"temprature": 0}}},
            "analysis-params.model_check.model.params.temprature: unknown key; did you mean",
        ),
        (
            {"model": {**SPEC, "api_protocol": ["openai-chatt"]}},
            "analysis-params.model_check.model.api_protocol: unknown protocol",
        ),
        (
            {"model": {**SPEC, "id": "scripted"}},
            "analysis-params.model_check.model.base_url: the built-in model scripted calls no",
        ),
        ({"model": SPEC, "max_findings": 0}, "analysis-params.model_check.max_findings: "),
        ({"model": SPEC, "max_finding": 5}, "analysis-params.model_check.max_finding: unknown key"),
    ],
)
def test_wrong_parameters_are_refused_in_one_line(given: Any, message: str) -> None:
    with pytest.raises(RequestError) as raised:
        check_params({"model_check": given})
    assert str(raised.value).startswith(message)
    assert "plain-text-key" not in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_mistyped_name_is_told() -> None:
    with pytest.raises(RequestError, match="did you mean 'model_check'"):
        check_params({"model_chek": {"model": SPEC}})


def test_the_parameters_in_the_docs_are_right() -> None:
    page = (Path(__file__).parents[3] / "docs" / "analysis.md").read_text(encoding="utf-8")
    section = page.split("## A second opinion")[1].split("\n## ")[0]
    example = json.loads(section.split("```json\n")[1].split("```")[0])
    check_params(example)
    rows = [line.split("`")[1] for line in section.splitlines() if line.startswith("| `")]
    assert rows == list(ModelCheck.model_fields)
    for name, field in ModelCheck.model_fields.items():
        if not field.is_required():
            assert f"| `{name}` | {field.default} |" in section
