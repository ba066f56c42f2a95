"""Run the real command line in its own process, as a user does."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Ended:
    exit_code: int
    stdout: str
    stderr: str

    @property
    def document(self) -> dict[str, Any]:
        """What `--json` printed: one document and nothing else."""
        document = json.loads(self.stdout)
        assert isinstance(document, dict)
        return document

    @property
    def run_dir(self) -> Path:
        return Path(self.stdout.strip().splitlines()[-1])


def agentcompass(*words: str, cwd: Path, timeout: float = 240, **env: str) -> Ended:
    ended = subprocess.run(
        [sys.executable, "-m", "agentcompass", *words],
        cwd=cwd,
        env={**os.environ, **env},
        capture_output=True,
        timeout=timeout,
        check=False,
    )
    return Ended(ended.returncode, ended.stdout.decode(), ended.stderr.decode())
