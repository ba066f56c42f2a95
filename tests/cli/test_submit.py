"""`submit --wait` ends as the run ended, and says so where that is not known."""

import json
from pathlib import Path
from typing import Any

import pytest
from prefect.client.schemas.objects import FlowRun
from prefect.states import Completed

from agentcompass.components.contracts.attempt import AttemptKey, AttemptRecord, Detail, Verdict
from agentcompass.components.results.metrics import compute_metrics
from agentcompass.flows import handing_over
from agentcompass.flows import submit as flow
from tests.cli.conftest import Answer, Cli

WAIT = ("submit", "quickstart", "oracle", "scripted", "--wait")


def waited(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, labels: dict[str, Any], *typed: str
) -> Answer:
    """What `submit --wait` says of a Completed run with these labels."""
    named = {f"agentcompass.{name}": value for name, value in labels.items()}
    ended = FlowRun(flow_id="00000000-0000-0000-0000-000000000001", state=Completed(), labels=named)
    handed = flow.Submitted("id", "name", "http://127.0.0.1:1/runs/id")
    monkeypatch.setattr(handing_over, "hand_over", lambda *_: handed)
    monkeypatch.setattr(handing_over, "wait_for", lambda *_: flow._ended(ended))
    return cli(*WAIT, *typed)


def metrics_in(folder: Path, planned: int) -> None:
    record = AttemptRecord(
        key=AttemptKey(task_id="t", index=1), status="scored", verdict=Verdict(correct=True)
    )
    detail = Detail(
        task_id="t", instruction="?", content_hash="0", planned=planned, attempts=(record,)
    )
    text = compute_metrics([detail], ["t"], k=planned).model_dump_json()
    (folder / "metrics.json").write_text(text, encoding="utf-8")


@pytest.mark.parametrize("told", [0, 1])
def test_the_runs_own_word_is_the_exit_code(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, told: int
) -> None:
    answer = waited(cli, monkeypatch, {"exit_code": told, "run_dir": "/elsewhere/run"})
    assert (answer.code, answer.out.splitlines()[-1]) == (told, "/elsewhere/run")


@pytest.mark.parametrize(("planned", "code"), [(1, 0), (2, 1)])
def test_without_its_word_the_numbers_in_its_folder_tell(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, planned: int, code: int
) -> None:
    metrics_in(tmp_path, planned)
    assert waited(cli, monkeypatch, {"run_dir": str(tmp_path)}).code == code


@pytest.mark.parametrize("labels", [{}, {"run_dir": "/not/on/this/machine"}])
def test_an_end_that_is_not_known_is_no_success(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, labels: dict[str, Any]
) -> None:
    answer = waited(cli, monkeypatch, labels, "--json")
    assert answer.code == json.loads(answer.out)["exit_code"] == 4
    assert "whether every attempt is scored is not known here" in answer.err
