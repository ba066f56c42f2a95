"""`list` shows what is registered, one line each, and machines get JSON."""

import json
from importlib.metadata import EntryPoint

import pytest

from agentcompass.components.registry import entry_points, registry
from tests.cli.conftest import Cli


@pytest.mark.parametrize(
    ("family", "known"),
    [
        ("benchmark", "gsm8k"),
        ("harness", "tool_agent"),
        ("env", "host_process"),
        ("model-protocol", "openai-chat"),
    ],
)
def test_each_component_has_a_line_with_origin_and_summary(
    cli: Cli, family: str, known: str
) -> None:
    answer = cli("list", family)
    assert (answer.code, answer.err) == (0, "")
    lines = answer.out.splitlines()
    line = next(line for line in lines if line.split()[0] == known)
    assert "built in  " in line
    assert len(line) > len(known) + len("built in") + 10


def test_json_holds_the_same(cli: Cli) -> None:
    rows = json.loads(cli("list", "harness", "--json").out)
    lines = cli("list", "harness").out.splitlines()
    assert [row["id"] for row in rows] == [line.split()[0] for line in lines]
    assert set(rows[0]) == {"id", "origin", "summary"}


def test_an_empty_family_is_an_empty_list(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "listings", lambda family, directories=(): {})
    assert cli("list", "analyzer").out == ""
    assert json.loads(cli("list", "analyzer", "--json").out) == []


def test_two_components_of_one_name_are_refused_naming_both(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = EntryPoint("gsm8k", "somewhere.else:COMPONENT", "agentcompass.benchmarks")
    monkeypatch.setattr(entry_points, "entry_points", lambda group: [entry])
    monkeypatch.setattr(entry_points, "_listings", entry_points._listings.__wrapped__)
    answer = cli("list", "benchmark")
    assert answer.code == 2
    assert "somewhere.else" in answer.complaint
    assert "components.benchmarks.gsm8k" in answer.complaint
