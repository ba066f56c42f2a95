"""C47: Modal's limits delay sandboxes or stop the run with advice; nothing is scored by them."""

import json
import os
import subprocess
import sys
from pathlib import Path

from agentcompass.components.contracts.errors import AgentCompassError, Code
from agentcompass.components.environments.modal import Modal, ModalParameters
from tests.cases.rig import Ran, ask, measure
from tests.cases.toy import Toy
from tests.components.environments.modal_sandboxes import needs_sandboxes, standin
from tests.standins.modal_server import ModalStandin

__all__ = ["standin"]
pytestmark = needs_sandboxes

ROOT = Path(__file__).parents[2]
PROCESS = """
import json, sys
from pathlib import Path
from tests.cases.test_c47_modal import run
ran = run(Path(sys.argv[1]), 20)
print(json.dumps([ran.codes(), ran.metrics.headline.value]))
"""


def run(folder: Path, tasks: int, *, may_stop: bool = False) -> Ran:
    request = ask(folder, "quickstart", "oracle", model="scripted", task_concurrency=10)
    modal = Modal(ModalParameters(image="debian:stable-slim"))
    return measure(request, Toy(tasks), environments=lambda _: modal, may_stop=may_stop)


def test_forty_tasks_of_two_processes_share_ten_places_and_five_a_second(
    standin: ModalStandin, tmp_path: Path
) -> None:
    standin.faults.creates_per_second = 5
    standin.faults.most_alive = 10
    standin.delete_seconds = 0.5
    processes = []
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        processes.append(
            subprocess.Popen(
                [sys.executable, "-c", PROCESS, str(tmp_path / name)],
                cwd=ROOT,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
                stdout=subprocess.PIPE,
                text=True,
            )
        )
    for process in processes:
        printed, _ = process.communicate(timeout=200)
        codes, headline = json.loads(printed.splitlines()[-1])
        assert set(codes.values()) == {None}
        assert (len(codes), headline) == (20, 1.0)
    refused = standin.calls.count("SandboxCreateV2") - len(standin.sandboxes)
    assert len(standin.sandboxes) == 40
    assert refused > 0
    assert standin.living() == []


def test_a_quota_for_good_stops_the_run_after_few_tries(
    standin: ModalStandin, tmp_path: Path
) -> None:
    standin.faults.quota_message = "disk quota exceeded"
    ran = run(tmp_path, 40, may_stop=True)
    assert isinstance(ran.failure, AgentCompassError) or ran.ending is not None
    codes = [code for code in ran.codes().values() if code is not None]
    assert set(codes) <= {Code.ENVIRONMENT_DISK_FULL.value, Code.RUN_STOPPED.value}
    assert Code.ENVIRONMENT_DISK_FULL.value in codes
    assert ran.metrics.coverage.scored == 0
    assert standin.calls.count("SandboxCreateV2") <= 20
    assert "raise it" in ran.summary
