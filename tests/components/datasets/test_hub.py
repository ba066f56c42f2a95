"""The real hub client against a stand-in on a loopback port."""

import io
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest

from agentcompass.components.contracts.errors import PreflightRefused, RequestError
from agentcompass.components.datasets.hub import HubSource
from agentcompass.components.datasets.records import Records, load_records
from tests.standins.hub import COMMIT, NEXT_COMMIT, HubStandIn, hub_stand_in

SOURCE = HubSource("openai/gsm8k", "main/test-*.parquet")
FILE = "main/test-00000-of-00001.parquet"
TOKEN = "hf_secretCanaryToken0123456789"
DEAD_ENDPOINT = "http://127.0.0.1:9"  # the discard port: nothing listens there


def parquet(*questions: str) -> bytes:
    table = pyarrow.table({"question": list(questions), "answer": [f"#### {q}" for q in questions]})
    buffer = io.BytesIO()
    pyarrow.parquet.write_table(table, buffer)
    return buffer.getvalue()


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[HubStandIn]:
    files = {FILE: parquet("1", "2"), "main/train-00000-of-00001.parquet": parquet("no")}
    with hub_stand_in("openai/gsm8k", files) as stand_in:
        monkeypatch.setenv("HF_ENDPOINT", stand_in.endpoint)
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        monkeypatch.setenv("HF_TOKEN", "")
        monkeypatch.setattr(
            "huggingface_hub.constants.HF_TOKEN_PATH", str(tmp_path / "no-token"), raising=True
        )
        monkeypatch.setattr("agentcompass.components.datasets.hub.TRY_TIMEOUT_SECONDS", 1.0)
        monkeypatch.setattr("agentcompass.components.datasets.hub.WAITS_SECONDS", (0.05, 0.05))
        yield stand_in


def load(folder: Path, **options: Any) -> Records:
    return load_records(SOURCE, {"question": str, "answer": str}, folder / "data", **options)


def questions(records: Records) -> list[str]:
    return [row["question"] for row in records.rows]


def test_the_split_is_downloaded_and_its_commit_recorded(hub: HubStandIn, tmp_path: Path) -> None:
    records = load(tmp_path)
    assert questions(records) == ["1", "2"]
    assert (records.source, records.revision) == ("openai/gsm8k", COMMIT)
    assert not any("train" in path for _, path, _ in hub.requests)


def test_a_copy_at_hand_needs_no_network_call_at_all(hub: HubStandIn, tmp_path: Path) -> None:
    first = load(tmp_path)
    hub.requests.clear()
    assert load(tmp_path) == first
    assert load(tmp_path, revision=COMMIT) == first
    assert hub.requests == []


def test_a_branch_is_asked_for_again_and_served_from_the_copy_when_offline(
    hub: HubStandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    load(tmp_path)
    hub.files[NEXT_COMMIT] = {FILE: parquet("3")}
    hub.refs["main"] = NEXT_COMMIT
    assert questions(load(tmp_path)) == ["1", "2"]  # data do not change unasked
    moved = load(tmp_path, revision="main")
    assert (questions(moved), moved.revision) == (["3"], NEXT_COMMIT)
    monkeypatch.setenv("HF_ENDPOINT", DEAD_ENDPOINT)
    assert load(tmp_path, revision="main") == moved
    assert questions(load(tmp_path, revision=COMMIT)) == ["1", "2"]


def test_no_network_and_no_copy_names_the_data_set_and_the_way_out(
    hub: HubStandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", DEAD_ENDPOINT)
    with pytest.raises(PreflightRefused) as refused:
        load(tmp_path)
    assert "openai/gsm8k" in str(refused.value)
    assert "data_path" in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("status", "code", "kind", "word"),
    [
        (401, "RepoNotFound", "", "HF_TOKEN"),
        (401, "", "", "HF_TOKEN"),
        (403, "GatedRepo", "", "gated"),
        (403, "GatedRepo", "file", "gated"),
        (401, "GatedRepo", "file", "gated"),
        (404, "RepoNotFound", "", "does not exist"),
    ],
)
@pytest.mark.parametrize("token", ["", TOKEN])
def test_a_refusal_ends_at_once_in_one_line_without_the_token(
    hub: HubStandIn,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
    status: int,
    code: str,
    kind: str,
    word: str,
    token: str,
) -> None:
    monkeypatch.setenv("HF_TOKEN", token)
    hub.fail(status, code=code, kind=kind)
    with pytest.raises(PreflightRefused) as refused:
        load(tmp_path)
    message = str(refused.value)
    assert "openai/gsm8k" in message
    assert "HF_TOKEN" in message
    assert word in message or token
    assert "\n" not in message
    asked = [path for _, path, _ in hub.requests if path.startswith("/api/datasets")]
    assert len(asked) == 1
    if token:
        assert any(sent == f"Bearer {TOKEN}" for _, _, sent in hub.requests)
    printed = capfd.readouterr()
    assert TOKEN not in message + caplog.text + printed.out + printed.err


def test_server_errors_are_retried_and_then_named(hub: HubStandIn, tmp_path: Path) -> None:
    hub.fail(503)
    with pytest.raises(PreflightRefused, match="503"):
        load(tmp_path)
    assert 2 <= len([p for _, p, _ in hub.requests if p.startswith("/api/datasets")]) <= 4


def test_a_short_disturbance_is_survived(hub: HubStandIn, tmp_path: Path) -> None:
    hub.fail(500, times=2)
    assert questions(load(tmp_path)) == ["1", "2"]


def test_a_silent_hub_is_given_up_in_time(hub: HubStandIn, tmp_path: Path) -> None:
    hub.fail(200, seconds=20)
    begin = time.monotonic()
    with pytest.raises(PreflightRefused, match="data_path"):
        load(tmp_path)
    assert time.monotonic() - begin < 15


def test_a_download_cut_short_is_made_whole(hub: HubStandIn, tmp_path: Path) -> None:
    hub.fail(kind="file", times=1, cut=True)
    assert questions(load(tmp_path)) == ["1", "2"]


def test_a_damaged_or_half_copy_is_fetched_again(hub: HubStandIn, tmp_path: Path) -> None:
    first = load(tmp_path)
    [copy] = (tmp_path / "data").rglob("test-*.parquet")
    copy.write_bytes(copy.read_bytes()[:40])
    assert load(tmp_path) == first
    [record] = (tmp_path / "data").rglob("complete.json")
    record.write_bytes(record.read_bytes()[:9])
    assert load(tmp_path) == first


def test_an_unknown_revision_is_the_users_mistake(hub: HubStandIn, tmp_path: Path) -> None:
    for revision in ("v9", "c" * 40):
        with pytest.raises(RequestError, match="no revision") as refused:
            load(tmp_path, revision=revision)
        assert refused.value.field == "benchmark-params.revision"


def test_a_revision_of_a_local_file_is_refused(hub: HubStandIn, tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="no revision"):
        load(tmp_path, data_path="x.jsonl", revision="main")


def test_hub_and_file_give_the_same_rows_and_hash(hub: HubStandIn, tmp_path: Path) -> None:
    local = tmp_path / "rows.jsonl"
    local.write_text(
        '{"answer": "#### 1", "question": "1", "more": 5}\n{"question": "2", "answer": "#### 2"}\n'
    )
    from_hub, from_file = load(tmp_path), load(tmp_path, data_path=str(local))
    assert from_hub.rows == from_file.rows
    assert from_hub.content_hash == from_file.content_hash


def test_a_folder_that_cannot_be_written_is_named(hub: HubStandIn, tmp_path: Path) -> None:
    (tmp_path / "data").write_text("a file, not a folder")
    with pytest.raises(PreflightRefused, match="cannot be kept under"):
        load(tmp_path)
