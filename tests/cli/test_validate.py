"""`agentcompass validate`, on the packaged benchmark."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

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
