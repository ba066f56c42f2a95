"""`config docs` explains every parameter of every component."""

import json

import pytest

from agentcompass.cli.families import FAMILIES
from agentcompass.components.configuration.parameter_docs import parameter_docs
from agentcompass.components.execution import missing
from agentcompass.components.registry import registry
from tests.cli.conftest import Cli

COMPONENTS = [
    (word, component_id)
    for word, family in FAMILIES.items()
    for component_id in registry.listings(family)
]


@pytest.mark.parametrize(("family", "component_id"), COMPONENTS)
def test_every_parameter_of_every_component_is_explained(
    cli: Cli, family: str, component_id: str
) -> None:
    answer = cli("config", "docs", family, component_id, "--json")
    assert answer.code == 0, answer.err
    document = json.loads(answer.out)
    assert document["id"] == component_id
    component = registry.load(FAMILIES[family], component_id)
    names = [row["name"] for row in document["parameters"]]
    assert names == [doc.name for doc in parameter_docs(component.parameters)]
    silent = [row["name"] for row in document["parameters"] if not row["meaning"]]
    assert not silent, f"parameters without a docstring: {silent}"


def test_the_table_shows_type_default_and_meaning(cli: Cli) -> None:
    answer = cli("config", "docs", "benchmark", "gsm8k")
    assert (answer.code, answer.err) == (0, "")
    assert answer.out.startswith("gsm8k (version ")
    line = next(line for line in answer.out.splitlines() if line.startswith("limit"))
    assert "integer ≥ 1 or null" in line
    assert "null" in line
    assert "At most this many tasks" in line


def test_what_a_component_needs_and_what_brings_it_is_told(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    needs = "needs minisweagent (extra agentcompass[mini-swe-agent]); "
    shown = cli("config", "docs", "harness", "mini_swe_agent").out.splitlines()
    assert shown[1] == f"{needs}installed"
    monkeypatch.setattr(missing, "importable", lambda module: False)
    shown = cli("config", "docs", "harness", "mini_swe_agent").out.splitlines()
    assert shown[1].startswith(f"{needs}pip install 'mini-swe-agent")
    document = json.loads(cli("config", "docs", "harness", "mini_swe_agent", "--json").out)
    assert (document["extra"], document["missing"]) == ("mini-swe-agent", ["minisweagent"])
    assert "needs" not in cli("config", "docs", "harness", "oracle").out


def test_long_texts_wrap_in_their_column(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = cli("config", "docs", "harness", "tool_agent").out.splitlines()
    assert max(map(len, lines)) <= 120
