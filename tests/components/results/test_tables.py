import json

import pandas
import pyarrow.parquet
import pytest

from agentcompass.components.contracts.attempt import Submission, Verdict
from agentcompass.components.contracts.errors import AgentCompassError, Code
from agentcompass.components.results.tables import COLUMNS, write_attempts
from agentcompass.components.results.writing import to_json
from tests.components.results.records import START, detail, full_detail, record


def read(path, details):
    write_attempts(path, details)
    return pandas.read_parquet(path)


def types(table) -> dict[str, str]:
    # pandas 3 calls its text type `str` where it is told `string` without saying how it is kept.
    return {name: str(kind) for name, kind in table.dtypes.items()}


def test_there_is_one_row_an_attempt_with_what_it_did(tmp_path):
    table = read(tmp_path / "attempts.parquet", [full_detail(), detail("b", 0.25)])
    assert list(table.columns) == list(COLUMNS)
    assert list(table["task_id"]) == ["django/Ticket #7"] * 3 + ["b"]
    assert list(table["attempt"]) == [1, 2, 3, 1]
    assert list(table["status"]) == ["unscored", "scored", "skipped", "scored"]
    lost, scored, skipped, scalar = (row for _, row in table.iterrows())
    assert (lost["failure_code"], lost["failure_owner"]) == ("environment.lost", "environment")
    assert lost["failure_message"] == "environment.lost on django/Ticket #7"
    assert pandas.isna(lost["correct"])
    assert pandas.isna(lost["value"])
    assert scored["correct"] == False  # noqa: E712 - a nullable boolean
    assert (scored["value"], scored["physical"]) == (0.0, 3)
    assert scored["warnings"] == "grader.tampered, harness.step_limit"
    assert scored["timed_out"] == True  # noqa: E712
    assert json.loads(scored["metrics"])["tests_passed"] == 0.75
    assert scored["stop_reason"] == "step_limit"
    assert (scored["model_calls"], scored["input_tokens"], scored["output_tokens"]) == (3, 1200, 80)
    assert pandas.isna(scored["cost_usd"])
    assert (scored["setup_seconds"], scored["score_seconds"]) == (2.25, 9.0)
    assert scored["started_at"] == pandas.Timestamp(START)
    assert skipped["warnings"] == ""
    assert pandas.isna(skipped["started_at"])
    assert (scalar["score"], scalar["value"], scalar["cost_usd"]) == (0.25, 0.25, 0.1)
    assert pandas.isna(scalar["correct"])


def test_types_hold_with_no_rows_and_with_only_unknown_values(tmp_path):
    empty = read(tmp_path / "empty.parquet", [])
    nulls = read(tmp_path / "nulls.parquet", [detail("a", "skip")])
    full = read(tmp_path / "full.parquet", [full_detail(), detail("b", 0.25)])
    assert len(empty) == 0
    assert len(nulls) == 1
    assert types(empty) == types(nulls) == types(full)
    for name, kind in COLUMNS.items():
        assert types(empty)[name] == kind or kind == "string"


def test_the_mean_of_a_column_is_the_score(tmp_path):
    table = read(tmp_path / "t.parquet", [detail("a", 1, 0, Code.GRADER_CRASHED), detail("b", 1)])
    assert table["value"].mean() == pytest.approx(2 / 3)
    assert table["correct"].sum() == 2
    assert table.groupby("task_id")["value"].mean().to_dict() == {"a": 0.5, "b": 1.0}


def test_many_attempts_are_written_in_parts(tmp_path):
    path = tmp_path / "many.parquet"
    write_attempts(path, (detail(f"t{n}", 1, 0, 1) for n in range(700)))
    assert pyarrow.parquet.ParquetFile(path).num_row_groups == 3
    table = pandas.read_parquet(path)
    assert len(table) == 2_100
    assert list(table.index[:3]) == [0, 1, 2]
    assert table["task_id"].nunique() == 700


def test_a_value_of_an_unscored_attempt_is_unknown(tmp_path):
    odd = record("a", 1, Code.GRADER_TIMEOUT, verdict=Verdict(correct=True))
    table = read(tmp_path / "t.parquet", [detail("a").model_copy(update={"attempts": (odd,)})])
    assert table[["value", "correct", "score"]].isna().all(axis=None)


def test_odd_text_does_not_stop_the_table(tmp_path):
    odd = record("a", 1, 1, submission=Submission(stop_reason="\ud83d\0"))
    table = read(tmp_path / "t.parquet", [detail("a").model_copy(update={"attempts": (odd,)})])
    assert table["stop_reason"][0] == "\ufffd\ufffd"


def test_a_failure_on_the_way_leaves_the_old_table(tmp_path):
    path = tmp_path / "t.parquet"
    write_attempts(path, [detail("a", 1)])

    def torn():
        yield detail("b", 1)
        raise ValueError("damaged")

    with pytest.raises(ValueError, match="damaged"):
        write_attempts(path, torn())
    assert list(pandas.read_parquet(path)["task_id"]) == ["a"]
    assert [p.name for p in tmp_path.iterdir()] == ["t.parquet"]


def test_a_place_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(AgentCompassError, match="file/t.parquet") as caught:
        write_attempts(tmp_path / "file" / "t.parquet", [])
    assert caught.value.code is Code.RESULTS_WRITE


def test_the_same_attempts_make_the_same_table(tmp_path):
    mixed = full_detail().model_copy(update={"attempts": full_detail().attempts[::-1]})
    write_attempts(tmp_path / "a", [full_detail()])
    write_attempts(tmp_path / "b", [mixed])
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert to_json(full_detail()) != to_json(mixed)
