"""Signals in set-up and in scoring (case C08): in the agent's phase they are in test_runs.py."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from tests.flows.program import Ended

pytestmark = pytest.mark.usefixtures("prefect_home")


def shim(folder: Path, program: str, marker: str) -> str:
    """A PATH on which this program hangs, with a child that left its session."""
    path = folder / "bin" / program
    path.parent.mkdir()
    path.write_text(f"#!/bin/sh\nsetsid {marker} &\nexec {marker}\n")
    path.chmod(0o755)
    return f"{path.parent}{os.pathsep}{os.environ['PATH']}"


def running(command: str) -> int:
    lines = (process.info["cmdline"] for process in psutil.process_iter(["cmdline"]))
    return sum(" ".join(line or ()) == command for line in lines)


@pytest.mark.parametrize(
    ("phase", "program", "task", "number"),
    [
        ("setup", "git", "pagination", signal.SIGINT),
        ("setup", "git", "pagination", signal.SIGTERM),
        ("score", "python3", "csv-quotes", signal.SIGINT),
        ("score", "python3", "csv-quotes", signal.SIGTERM),
        ("score", "python3", "csv-quotes", signal.SIGHUP),
    ],
)
def test_a_signal_in_this_phase_leaves_nothing_behind(
    tmp_path: Path, phase: str, program: str, task: str, number: signal.Signals
) -> None:
    marker = f"sleep 31{os.getpid() % 1000:03}.{len(phase)}{int(number)}"
    words = ["run", "quickstart", "oracle", "scripted", "--json", "--progress", "none"]
    words += ["--benchmark-params", f'{{"sample_ids": ["{task}"]}}']
    run = subprocess.Popen(
        [sys.executable, "-m", "agentcompass", *words],
        cwd=tmp_path,
        env={**os.environ, "PATH": shim(tmp_path, program, marker)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        end = time.monotonic() + 90
        while running(marker) < 2:
            assert time.monotonic() < end, "the phase was never reached"
            time.sleep(0.1)
        run.send_signal(number)
        output, errors = run.communicate(timeout=60)
    finally:
        run.kill()
    assert running(marker) == 0
    assert run.returncode == 128 + number, errors.decode()
    ended = Ended(run.returncode, output.decode(), errors.decode())
    assert ended.document["metrics"]["outcomes"]["unscored"] == {"run.cancelled": 1}
    assert "Traceback" not in ended.stderr
