"""docs/extending.md does what it says: its commands are run, its files are written, in order."""

import json
import os
import re
import subprocess
from pathlib import Path

from tests.standins.python_home import python_home

PAGE = Path(__file__).parents[2] / "docs" / "extending.md"
BLOCK = re.compile(r"^```(?P<language>\w+)(?: (?P<file>\S+))?\n(?P<text>.*?)^```$", re.M | re.S)


def test_every_command_of_the_page_succeeds(tmp_path: Path, prefect_home: Path) -> None:
    home = python_home(tmp_path / "venv")
    for module in ("agentcompass", "pip", "pytest"):
        script = home.python.parent / module
        script.write_text(f'#!/bin/sh\nexec "{home.python}" -m {module} "$@"\n')
        script.chmod(0o755)
    environment = os.environ | {
        "PATH": f"{home.python.parent}{os.pathsep}{os.environ['PATH']}",
        "PREFECT_HOME": str(prefect_home),
        # What is needed to build and to run is here already; the index need not be asked.
        "PIP_NO_INDEX": "1",
        "PIP_NO_DEPS": "1",
        "PIP_NO_BUILD_ISOLATION": "0",
    }
    work = tmp_path / "work"
    work.mkdir()
    commands = 0
    for block in BLOCK.finditer(PAGE.read_text(encoding="utf-8")):
        if block["file"]:
            (work / block["file"]).write_text(block["text"], encoding="utf-8")
        elif block["language"] == "bash":
            done = subprocess.run(
                ["bash", "-ec", block["text"]],
                cwd=work,
                env=environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=240,
                check=False,
            )
            assert done.returncode == 0, block["text"] + done.stdout + done.stderr
            commands += block["text"].count("\n")
    assert commands >= 10
    assert headlines(work / "results") == [1.0] * 3  # `run`, `validate` and `run` again


def headlines(results: Path) -> list[float]:
    """Of the runs that were to score full: all but those of the agent that does nothing."""
    return [
        json.loads(path.read_text(encoding="utf-8"))["headline"]["value"]
        for path in results.glob("scripted__capitals__o*/*/metrics.json")
    ]
