"""Data that cannot be had end a run at once, in one line with the way out; data at hand need no
network (C44).

Elsewhere: every behaviour of the reader itself, revisions and damaged copies included, in
tests/components/datasets/test_hub.py.
"""

import io
import json
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest

from agentcompass.components.datasets import hub as reader
from tests.cli.conftest import Answer, Cli, cli, cli_process, home  # noqa: F401 - fixtures
from tests.flows.program import agentcompass
from tests.standins.hub import COMMIT, HubStandIn, hub_stand_in
from tests.standins.model_endpoint import ModelServer
from tests.standins.model_script import Reply

DATA_SET = "openai/gsm8k"
FILE = "main/test-00000-of-00001.parquet"
TOKEN = "hf_secretCanaryToken0123456789"
DEAD = "http://127.0.0.1:9"  # the discard port: nothing listens there
DRY = ("run", "gsm8k", "oracle", "scripted", "--dry-run")


def parquet() -> bytes:
    rows = {"question": ["What is 1 + 1?", "What is 2 + 2?"], "answer": ["#### 2", "#### 4"]}
    buffer = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.table(rows), buffer)
    return buffer.getvalue()


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[HubStandIn]:
    with hub_stand_in(DATA_SET, {FILE: parquet()}) as stand_in:
        monkeypatch.setenv("HF_ENDPOINT", stand_in.endpoint)
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        monkeypatch.setenv("HF_TOKEN", "")
        monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))  # for processes of their own
        monkeypatch.setattr(
            "huggingface_hub.constants.HF_TOKEN_PATH", str(tmp_path / "no-token"), raising=True
        )
        yield stand_in


def questions_asked(hub: HubStandIn) -> int:
    return sum(path.startswith("/api/datasets") for _, path, _ in hub.requests)


@pytest.mark.parametrize("token", ["", TOKEN])
@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (401, "RepoNotFound", ""),
        (401, "", ""),
        (403, "GatedRepo", ""),
        (403, "GatedRepo", "file"),
        (404, "RepoNotFound", ""),
    ],
)
def test_a_refusal_ends_at_once_in_one_line_with_the_data_set_and_the_way_in(
    cli: Cli,  # noqa: F811
    hub: HubStandIn,
    monkeypatch: pytest.MonkeyPatch,
    status: int,
    code: str,
    kind: str,
    token: str,
) -> None:
    monkeypatch.setenv("HF_TOKEN", token)
    hub.fail(status, code=code, kind=kind)
    answer = cli(*DRY)
    assert answer.code == 3
    assert DATA_SET in answer.complaint
    assert "HF_TOKEN" in answer.complaint
    assert questions_asked(hub) == 1
    assert TOKEN not in answer.out + answer.err
    assert any(sent == f"Bearer {TOKEN}" for _, _, sent in hub.requests) == bool(token)


def test_only_what_may_pass_is_asked_again(
    cli: Cli,  # noqa: F811
    hub: HubStandIn,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reader, "WAITS_SECONDS", (0.05, 0.05))
    hub.fail(500)
    answer = cli(*DRY)
    assert answer.code == 3
    assert DATA_SET in answer.complaint
    assert "500" in answer.complaint
    assert questions_asked(hub) == reader.TRIES


def test_a_silent_hub_is_given_up_in_time(
    cli: Cli,  # noqa: F811
    hub: HubStandIn,
) -> None:
    most = reader.TRIES * reader.TRY_TIMEOUT_SECONDS + sum(reader.WAITS_SECONDS)
    assert most < 15
    hub.fail(200, seconds=60)
    begin = time.monotonic()
    answer = cli(*DRY)
    assert time.monotonic() - begin < most + 10  # a crowded machine
    assert answer.code == 3
    assert DATA_SET in answer.complaint
    assert "data_path" in answer.complaint


def test_the_token_of_the_hubs_own_login_is_honoured(
    cli_process: Cli,  # noqa: F811
    hub: HubStandIn,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("HF_TOKEN")
    (tmp_path / "hf").mkdir()
    (tmp_path / "hf" / "token").write_text(TOKEN)
    answer = cli_process(*DRY)
    assert answer.code == 0, answer.err
    ours = [sent for _, path, sent in hub.requests if DATA_SET in path]
    assert set(ours) == {f"Bearer {TOKEN}"}
    assert TOKEN not in answer.out + answer.err


def test_a_file_cut_short_is_made_whole_by_the_next_run(
    cli: Cli,  # noqa: F811
    hub: HubStandIn,
    home: Path,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reader, "WAITS_SECONDS", (0.05, 0.05))
    hub.fail(kind="file", times=-1, cut=True)
    assert cli(*DRY).code == 3
    hub.failures.clear()
    assert planned(cli(*DRY, "--json")) == 2
    (copy,) = (home / "data").rglob("test-*.parquet")
    copy.write_bytes(copy.read_bytes()[:40])
    assert planned(cli(*DRY, "--json")) == 2
    assert copy.read_bytes() == parquet()


def planned(answer: Answer) -> int:
    assert answer.code == 0, answer.err
    return len(json.loads(answer.out)["tasks"])


@pytest.mark.usefixtures("prefect_home")
def test_a_copy_at_hand_serves_whole_runs_without_the_hub_and_the_token_is_nowhere(
    hub: HubStandIn, tmp_path: Path
) -> None:
    with ModelServer(lambda request: Reply(text="#### 2")) as endpoint:
        words = [
            "run", "gsm8k", "openai_chat", "m", "--progress", "none", "--json",
            "--model-base-url", endpoint.base_url, "--model-api-key", "any",
        ]  # fmt: skip
        first = agentcompass(*words, cwd=tmp_path, HF_TOKEN=TOKEN)
        assert first.exit_code == 0, first.stderr
        second = agentcompass(*words, cwd=tmp_path, HF_ENDPOINT=DEAD, HF_HUB_OFFLINE="1")
    assert second.exit_code == 0, second.stderr
    assert second.document["scored"] == 2
    for ended in (first, second):
        run = json.loads((Path(ended.document["run_dir"]) / "run.json").read_text("utf-8"))
        assert (run["dataset"]["source"], run["dataset"]["revision"]) == (DATA_SET, COMMIT)
    assert any(sent == f"Bearer {TOKEN}" for _, _, sent in hub.requests)
    files = [path for path in (tmp_path / "results").rglob("*") if path.is_file()]
    assert not [path for path in files if TOKEN.encode() in path.read_bytes()]
    assert TOKEN not in first.stdout + first.stderr
