"""A value is what the table in docs/configuration.md says, or an error; never another value, and
never a changed neighbour (C49).

Elsewhere: places and hints of mistakes in tests/components/configuration/test_json_value.py and
test_yaml_value.py, more wrong options in tests/cli/test_wrong_input.py.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from docs.generate import FOLDER
from tests.cli.conftest import Cli, cli, home  # noqa: F401 - fixtures
from tests.flows.program import agentcompass
from tests.standins.model_endpoint import ModelServer
from tests.standins.model_script import Reply

REFUSED = "refused"
NEIGHBOURS = {"before": "it's, me", "after": [0.5, None]}


def table() -> list[tuple[str, str, str]]:
    """(as written, in JSON, in YAML) of each row."""
    text = (FOLDER / "configuration.md").read_text(encoding="utf-8")
    section = text.partition("## How values are read")[2].partition("\n## ")[0]
    cell = r"`?([^|`]*)`?"
    return re.findall(rf"^\| `([^|`]*)` \| {cell} \| {cell} \|$", section, re.MULTILINE)


ROWS = table()


def test_the_table_is_read_whole() -> None:
    assert len(ROWS) >= 27
    assert ("-1", "-1", "-1") in ROWS
    assert ("{a:1}", REFUSED, REFUSED) in ROWS


@pytest.fixture(scope="module")
def endpoint() -> Iterator[ModelServer]:
    with ModelServer(lambda request: Reply(text="ok")) as served:
        yield served


def words(endpoint: ModelServer, model_params: str) -> list[str]:
    return [
        "run", "gsm8k", "openai_chat", "m", "--model-base-url", endpoint.base_url,
        "--model-api-key", "any", "--model-params", model_params,
        "--benchmark-params", '{"data_path": "questions.jsonl"}',
    ]  # fmt: skip


def ask(folder: Path) -> None:
    row = {"question": "What is 1 + 1?", "answer": "#### 2"}
    (folder / "questions.jsonl").write_text(json.dumps(row) + "\n")


def in_json(written: str) -> str:
    before, after = (json.dumps(NEIGHBOURS[name]) for name in ("before", "after"))
    body = f'{{"before": {before}, "v": {written}, "after": {after}}}'
    return f'{{"temperature": 0.5, "extra_body": {body}}}'


def in_yaml(values: dict[str, str]) -> str:
    lines = [f"  {name}: {written}" for name, written in values.items()]
    before, after = (json.dumps(NEIGHBOURS[name]) for name in ("before", "after"))
    body = [f"  before: {before}", *lines, f"  after: {after}"]
    return "\n".join(["temperature: 0.5", "extra_body:", *body]) + "\n"


@pytest.mark.parametrize("kind", ["inline", "@file.json", "@file.yaml"])
@pytest.mark.parametrize(("written", "json_says", "yaml_says"), ROWS, ids=[row[0] for row in ROWS])
def test_each_value_is_what_the_table_says(
    cli: Cli,  # noqa: F811
    home: Path,  # noqa: F811
    endpoint: ModelServer,
    written: str,
    json_says: str,
    yaml_says: str,
    kind: str,
) -> None:
    ask(home)
    says = yaml_says if kind == "@file.yaml" else json_says
    text = in_yaml({"v": written}) if kind == "@file.yaml" else in_json(written)
    if kind != "inline":
        (home / kind[1:]).write_text(text, encoding="utf-8")
        text = kind
    calls = len(endpoint.requests)
    answer = cli(*words(endpoint, text), "--dry-run", "--json")
    if says == REFUSED:
        assert answer.code == 2
        assert answer.complaint.startswith("model-params: ")
        assert len(endpoint.requests) == calls
        return
    assert answer.code == 0, answer.err
    params = json.loads(answer.out)["plan"]["model_params"]
    assert_same(params["extra_body"], {**NEIGHBOURS, "v": json.loads(says)})
    assert params["temperature"] == 0.5
    sent = endpoint.requests[-1].body
    assert_same({name: sent[name] for name in ("before", "v", "after")}, params["extra_body"])


def assert_same(found: Any, expected: Any) -> None:
    """Types too: 1 is not 1.0 and not true."""
    assert json.dumps(found, sort_keys=True) == json.dumps(expected, sort_keys=True)


@pytest.mark.parametrize(
    ("option", "value", "place"),
    [
        ("--model-params", "url=http://{host}:1/v1?a=b,c", "column 1"),
        ("--model-params", "until=Bob's,temperature=0.5", "column 1"),
        ("--benchmark-params", "limit=1", "column 1"),
        ("--benchmark-params", '{"limit": 007}', "column 12"),
        ("--benchmark-params", '{"limit": 1,}', "column 13"),
        ("--benchmark-params", "{limit:1}", "column 2"),
        ("--benchmark-params", '{"limit": 1, "limit": 2}', "'limit' is given twice"),
        ("--benchmark-params", '{"limit": "1"}', "benchmark-params.limit"),
        ("--benchmark-params", '{"limit": 1.0}', "benchmark-params.limit"),
        ("--benchmark-params", '{"seed": true}', "benchmark-params.seed"),
        ("--benchmark-params", '{"unscored": "null"}', "benchmark-params.unscored"),
    ],
)
def test_what_is_no_json_or_of_another_type_is_refused_with_its_place(
    cli: Cli,  # noqa: F811
    home: Path,  # noqa: F811
    option: str,
    value: str,
    place: str,
) -> None:
    answer = cli("run", "quickstart", "oracle", "scripted", option, value, "--dry-run")
    assert answer.code == 2
    assert answer.complaint.startswith(option[2:])
    assert place in answer.complaint
    assert sorted(home.iterdir()) == []


@pytest.mark.usefixtures("prefect_home")
def test_what_a_run_saves_is_the_table(tmp_path: Path, endpoint: ModelServer) -> None:
    ask(tmp_path)
    legal = {
        f"v{number}": (written, json.loads(says))
        for number, (written, _, says) in enumerate(ROWS)
        if says != REFUSED
    }
    text = in_yaml({name: written for name, (written, _) in legal.items()})
    (tmp_path / "all.yaml").write_text(text, encoding="utf-8")
    run = words(endpoint, "@all.yaml")
    ended = agentcompass(*run, "--progress", "none", "--json", cwd=tmp_path)
    assert ended.exit_code == 0, ended.stderr
    saved = json.loads((Path(ended.document["run_dir"]) / "run.json").read_text(encoding="utf-8"))
    expected = {**NEIGHBOURS, **{name: value for name, (_, value) in legal.items()}}
    assert_same(saved["plan"]["model_params"]["extra_body"], expected)
    assert_same(saved["plan"]["request"]["model"]["params"]["extra_body"], expected)
    sent = endpoint.requests[-1].body
    assert_same({name: sent[name] for name in expected}, expected)
