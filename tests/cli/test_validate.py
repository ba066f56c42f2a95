"""`agentcompass validate`, on the packaged benchmark."""

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from agentcompass.cli import run_execution
from agentcompass.components.contracts.progress import Outcome
from agentcompass.components.contracts.run import AttemptPlan, RunRequest
from tests.cli.conftest import Cli

pytestmark = pytest.mark.usefixtures("prefect_home")

COMMAND = [sys.executable, "-m", "agentcompass", "validate"]
TWO = json.dumps({"sample_ids": ["roman-numerals", "merge-intervals"]})


def test_a_sound_benchmark_is_said_to_be_sound(tmp_path: Path) -> None:
    done = subprocess.run(
        [*COMMAND, "quickstart", "--benchmark-params", TWO, "--repeats", "2", "--json"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert [task["health"] for task in report["tasks"]] == ["sound", "sound"]
    assert report["exit_code"] == 0
    assert report["tasks"][0]["oracle"] == [1.0, 1.0]
    assert "2 of 2 tasks are sound" in Path(report["report"]).read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("quickstrat",), "benchmark: no benchmark named 'quickstrat'"),
        (("quickstart", "--repeats", "0"), "repeats: 0 is too small"),
        (("quickstart", "oracle"), "1 argument too many"),
        (("quickstart", "--env", "nowhere"), "environment: no environment named 'nowhere'"),
    ],
)
def test_wrong_input_is_one_line(cli: Cli, arguments: tuple[str, ...], complaint: str) -> None:
    answer = cli("validate", *arguments)
    assert answer.code == 2
    assert complaint in answer.complaint


class Ended:
    """Stands where the runs would: records the requests and ends each like this."""

    def __init__(self, **outcome: Any) -> None:
        self.requests: list[RunRequest] = []
        self.outcome = Outcome(run_dir="/r", planned=2, scored=1, skipped=0, **outcome)

    def run(self, request: RunRequest, secrets: Mapping[str, str]) -> Outcome:
        self.requests.append(request)
        return self.outcome


def test_a_run_that_does_not_finish_is_one_document(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = Ended(state="timed_out", problem="too slow")
    monkeypatch.setattr(run_execution, "carry_out", ended.run)
    answer = cli("validate", "quickstart", "--json")
    assert answer.code == 4
    told = {"outcome": "timed_out", "problem": "too slow", "run_dir": "/r", "exit_code": 4}
    assert json.loads(answer.out) == told
    assert answer.complaint == "timed_out: too slow"


def test_every_attempt_is_made_anew_whatever_the_configuration_says(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, home: Path
) -> None:
    said = "execution: {attempts: {k: 9, strategy: pass}}\nruntime: {reuse: latest}"
    (home / "agentcompass.yaml").write_text(said, encoding="utf-8")
    ended = Ended(state="interrupted")
    monkeypatch.setattr(run_execution, "carry_out", ended.run)
    assert cli("validate", "quickstart", "--repeats", "2").code == 130
    (request,) = ended.requests
    assert request.runtime.reuse is None
    assert request.execution.attempts == AttemptPlan(k=2, strategy="avg")
