import gzip
import json
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest

from agentcompass.components.contracts.errors import RequestError
from agentcompass.components.datasets.hub import HubSource
from agentcompass.components.datasets.records import Records, load_records

COLUMNS = {"question": str, "answer": str}
ROWS = [{"question": "Ünï\u2028code?", "answer": "#### 1"}, {"question": "two", "answer": "#### 2"}]
LINES = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in ROWS).encode()


def load(path: Path) -> Records:
    return load_records(HubSource("o/n", "*"), COLUMNS, path.parent / "data", data_path=str(path))


def refusal(path: Path, content: bytes | None = None) -> str:
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(RequestError) as refused:
        load(path)
    assert refused.value.field == "benchmark-params.data_path"
    message = str(refused.value)
    assert "\n" not in message
    assert path.name in message
    return message


def test_every_format_gives_the_same_rows_and_hash(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(LINES)
    (tmp_path / "b.jsonl").write_bytes(b"\xef\xbb\xbf" + LINES.replace(b"\n", b"\r\n") + b"\r\n")
    (tmp_path / "c.jsonl.gz").write_bytes(gzip.compress(LINES))
    (tmp_path / "d.json").write_text(json.dumps(ROWS, indent=2))
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(ROWS), tmp_path / "e.parquet")
    loaded = [load(path) for path in sorted(tmp_path.glob("?.*"))]
    assert len(loaded) == 5
    assert all(list(records.rows) == ROWS for records in loaded)
    assert len({records.content_hash for records in loaded}) == 1
    assert loaded[0].source == "a.jsonl"
    assert loaded[0].revision is None


def test_any_changed_value_changes_the_hash(tmp_path: Path) -> None:
    one, other = tmp_path / "one.jsonl", tmp_path / "other.jsonl"
    one.write_bytes(LINES)
    other.write_bytes(LINES.replace(b"#### 2", b"#### 3"))
    assert load(one).content_hash != load(other).content_hash


def test_a_missing_file(tmp_path: Path) -> None:
    assert "does not exist" in refusal(tmp_path / "none.jsonl")
    assert "does not exist" in refusal(tmp_path / "none.parquet")


def test_a_folder_names_the_files_in_it(tmp_path: Path) -> None:
    (tmp_path / "test.jsonl").write_bytes(LINES)
    message = refusal(tmp_path)
    assert "folder" in message
    assert "test.jsonl" in message


def test_a_malformed_line_is_named(tmp_path: Path) -> None:
    content = LINES * 8 + b'{"question": "x", "answer": \n'
    assert ", line 17:" in refusal(tmp_path / "bad.jsonl", content)


def test_a_line_that_is_no_object(tmp_path: Path) -> None:
    assert ", line 3: not a JSON object" in refusal(tmp_path / "x.jsonl", LINES + b"[1]\n")
    assert ", item 1: not a JSON object" in refusal(tmp_path / "x.json", b"[1]")
    assert "list" in refusal(tmp_path / "y.json", b"{}")


def test_not_a_number_is_not_json(tmp_path: Path) -> None:
    content = LINES + b'{"question": "x", "answer": NaN}\n'
    assert ", line 3: not valid JSON" in refusal(tmp_path / "x.jsonl", content)


def test_not_utf8(tmp_path: Path) -> None:
    content = LINES + b'{"question": "caf\xe9", "answer": "1"}\n'
    message = refusal(tmp_path / "latin.jsonl", content)
    assert ", line 3: not UTF-8" in message
    assert "0xe9" in message


def test_a_missing_column_names_those_there_and_the_nearest(tmp_path: Path) -> None:
    content = LINES + b'{"Question": "x", "answer": "1"}\n'
    message = refusal(tmp_path / "x.jsonl", content)
    assert ", line 3: no column 'question'" in message
    assert "'Question', 'answer'" in message
    assert "is 'Question' meant?" in message


def test_a_column_of_another_kind(tmp_path: Path) -> None:
    content = LINES + b'{"question": "x", "answer": 18}\n'
    message = refusal(tmp_path / "x.jsonl", content)
    assert ", line 3: column 'answer' holds a whole number, not text" in message


def test_nothing_in_it(tmp_path: Path) -> None:
    for name, content in (
        ("a.jsonl", b""),
        ("b.jsonl", b"\n \n"),
        ("c.json", b"[]"),
        ("d.json", b""),
    ):
        assert "no records" in refusal(tmp_path / name, content)


def test_damaged_files(tmp_path: Path) -> None:
    cut = gzip.compress(LINES * 50)[:-20]
    assert "damaged gzip" in refusal(tmp_path / "x.jsonl.gz", cut)
    assert "Parquet" in refusal(tmp_path / "x.parquet", b"PAR1 nothing")


def test_an_unknown_kind_of_file(tmp_path: Path) -> None:
    assert ".jsonl" in refusal(tmp_path / "x.csv", b"a,b\n")
