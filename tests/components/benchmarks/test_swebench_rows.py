import gzip
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from agentcompass.components.benchmarks._swebench.rows import load_rows
from agentcompass.components.benchmarks.swebench_lite import COMPONENT
from agentcompass.components.contracts.errors import RequestError
from agentcompass.components.datasets.hub import HubSource
from tests.components.benchmarks.swebench_repository import row

HUB = HubSource("example/shapes", "data/test-*.parquet")
BASE = "a" * 40


def loaded(path: Path, rows: list[Mapping[str, Any]]) -> Any:
    lines = "".join(json.dumps(item) + "\n" for item in rows).encode()
    path.write_bytes(gzip.compress(lines) if path.suffix == ".gz" else lines)
    return load_rows(HUB, path.parent, str(path), None)


def test_lists_may_be_json_text_or_lists(tmp_path: Path) -> None:
    as_text = loaded(tmp_path / "a.jsonl", [row(BASE)])
    as_list = loaded(
        tmp_path / "b.jsonl.gz",
        [row(BASE, FAIL_TO_PASS=["An area is a product."], PASS_TO_PASS=["A label has brackets."])],
    )
    assert as_text.instances == as_list.instances
    assert as_text.content_hash == as_list.content_hash
    assert as_text.source == "a.jsonl"


def test_every_format_gives_the_same(tmp_path: Path) -> None:
    import pyarrow
    import pyarrow.parquet

    rows = [row(BASE), row(BASE, instance_id="example__shapes-2")]
    (tmp_path / "c.json").write_text(json.dumps(rows))
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / "d.parquet")
    first = loaded(tmp_path / "a.jsonl", rows)
    for name in ("c.json", "d.parquet"):
        again = load_rows(HUB, tmp_path, str(tmp_path / name), None)
        assert again.instances == first.instances
        assert again.content_hash == first.content_hash


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"FAIL_TO_PASS": "[1, 2"}, "line 1: column 'FAIL_TO_PASS' is not a JSON list"),
        ({"FAIL_TO_PASS": "[]"}, "FAIL_TO_PASS is empty"),
        ({"PASS_TO_PASS": [1]}, "'PASS_TO_PASS' is not a list of test names"),
        ({"base_commit": "HEAD"}, "'base_commit' holds 'HEAD', not a full commit hash"),
        ({"repo": "shapes"}, "not an owner/name"),
        ({"instance_id": "../up"}, "not an id"),
        ({"patch": ""}, "'patch' is empty"),
        ({"patch": "no diff"}, "'patch' is not a git diff"),
        ({"problem_statement": None}, "'problem_statement' holds NoneType, not text"),
    ],
)
def test_a_malformed_row_is_refused_with_its_place(
    tmp_path: Path, changes: dict[str, Any], problem: str
) -> None:
    with pytest.raises(RequestError) as raised:
        loaded(tmp_path / "rows.jsonl", [row(BASE, **changes)])
    assert "rows.jsonl, line 1" in str(raised.value)
    assert problem in str(raised.value)


def test_missing_columns_and_repeated_ids_are_refused(tmp_path: Path) -> None:
    short = {k: v for k, v in row(BASE).items() if k != "test_patch"}
    with pytest.raises(RequestError, match="no column 'test_patch'; the columns there:"):
        loaded(tmp_path / "rows.jsonl", [short])
    with pytest.raises(RequestError, match="line 2: instance_id .* stands there twice"):
        loaded(tmp_path / "rows.jsonl", [row(BASE), row(BASE)])


def test_the_hash_follows_what_can_change_a_result(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"

    def content_hash(changes: dict[str, Any], **parameters: Any) -> str:
        path.write_text(json.dumps(row(BASE, **changes)) + "\n")
        given = {"data_path": str(path), "test_command": "pytest -rA", **parameters}
        benchmark = COMPONENT.create(COMPONENT.parameters(**given))
        [sample] = benchmark.load(tmp_path).samples
        return str(sample.content_hash)

    first = content_hash({})
    assert content_hash({"created_at": "2030-01-01"}) == first
    for changes in (
        {"problem_statement": "Other."},
        {"base_commit": "b" * 40},
        {"FAIL_TO_PASS": ["x"]},
        {"version": "2.0"},
    ):
        assert content_hash(changes) != first, changes
    assert content_hash({}, test_command="pytest") != first
    assert content_hash({}, hints=True) != first


def test_a_repository_nobody_knows_needs_a_test_command(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps(row(BASE)) + "\n")
    benchmark = COMPONENT.create(COMPONENT.parameters(data_path=str(path)))
    with pytest.raises(RequestError, match="no test command is known for example/shapes"):
        benchmark.load(tmp_path)


def test_the_prompt_holds_the_issue_and_nothing_of_the_key(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps(row(BASE)) + "\n")
    given = {"data_path": str(path), "test_command": "pytest -rA"}
    for hints in (False, True):
        benchmark = COMPONENT.create(COMPONENT.parameters(**given, hints=hints))
        [sample] = benchmark.load(tmp_path).samples
        assert "area(3, 4) gives 7." in sample.task.instruction
        assert ("Look at the plus sign." in sample.task.instruction) is hints
        shown = sample.task.model_dump_json()
        for secret in ("width * height", "An area is a product", "A label has"):
            assert secret not in shown
        assert sample.task.category == "example/shapes"
        assert sample.task.requirements.workdir == "/testbed"
