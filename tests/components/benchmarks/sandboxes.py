"""Real sandboxes for benchmark tests: host_process, with all programs or only some."""

import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from agentcompass.components.contracts.attempt import AttemptKey
from agentcompass.components.contracts.requirements import Requirements
from agentcompass.components.contracts.sandbox import Environment, SandboxLabel
from agentcompass.components.environments.host_process import HostProcess, HostProcessParameters


@asynccontextmanager
async def sandbox(variables: Mapping[str, str] | None = None) -> AsyncIterator[Environment]:
    provider = HostProcess(HostProcessParameters())
    label = SandboxLabel(run_id="test", attempt=AttemptKey(task_id="benchmark", index=1))
    async with provider.open(Requirements(env=variables or {}), label) as env:
        yield env


def path_with(folder: Path, *programs: str) -> dict[str, str]:
    """Variables of a machine that has only these programs."""
    folder.mkdir()
    for program in programs:
        # The interpreter itself: what stands on PATH may be a script that needs other programs.
        found = os.path.realpath(sys.executable) if program == "python3" else shutil.which(program)
        assert found, program
        (folder / program).symlink_to(found)
    return {"PATH": str(folder)}


def own_python(folder: Path) -> tuple[dict[str, str], Path]:
    """Variables of a machine whose python3 has a standard library of its own, and that library.

    What is written there harms no other Python.
    """
    theirs = Path(sysconfig.get_paths()["stdlib"])
    library = folder / "lib" / theirs.name
    without = shutil.ignore_patterns("site-packages", "__pycache__", "test*")
    shutil.copytree(theirs, library, ignore=without, copy_function=os.symlink)
    (folder / "bin").mkdir()
    python = shutil.copy(os.path.realpath(sys.executable), folder / "bin/python3")
    asked = [python, "-I", "-S", "-c", "import os; print(os.__file__)"]
    if str(library) not in subprocess.run(asked, capture_output=True, text=True).stdout:
        pytest.skip("this Python does not look for its library beside itself")
    return {"PATH": f"{folder / 'bin'}:{os.environ['PATH']}"}, library
