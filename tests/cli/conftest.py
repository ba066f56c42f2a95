"""Command lines for tests: in this process for speed, or in one of their own."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from agentcompass.cli import main

QUESTIONS = (
    {"question": "What is 1 + 1?", "answer": "One and one.\n#### 2"},
    {"question": "What is 2 + 2?", "answer": "Two and two.\n#### 4"},
    {"question": "What is 3 + 3? 🙂 漢字", "answer": "Three and three.\n#### 6"},
)


@dataclass(frozen=True)
class Answer:
    code: int
    out: str
    err: str

    @property
    def complaint(self) -> str:
        """The one line on stderr."""
        assert self.err.count("\n") == 1, f"not one line:\n{self.err}"
        assert self.err.startswith("agentcompass: ")
        return self.err.removeprefix("agentcompass: ").rstrip("\n")


Cli = Callable[..., Answer]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory with nothing of this machine's settings."""
    folder = tmp_path / "home"
    folder.mkdir()
    monkeypatch.chdir(folder)
    for name in list(os.environ):
        if name.startswith(("PREFECT_", "AGENTCOMPASS_", "MODEL_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("PREFECT_HOME", str(tmp_path / "prefect"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return folder


@pytest.fixture
def cli(home: Path, capsys: pytest.CaptureFixture[str]) -> Cli:
    def run(*arguments: str) -> Answer:
        capsys.readouterr()
        code = main.answer(arguments)
        captured = capsys.readouterr()
        return Answer(code, captured.out, captured.err)

    return run


@pytest.fixture
def cli_process(home: Path) -> Cli:
    def run(*arguments: str, env: Mapping[str, str] | None = None) -> Answer:
        done = subprocess.run(
            [sys.executable, "-m", "agentcompass", *arguments],
            capture_output=True,
            stdin=subprocess.DEVNULL,
            env={**os.environ, **(env or {})},
            timeout=120,
            check=False,
        )
        return Answer(done.returncode, done.stdout.decode("utf-8"), done.stderr.decode("utf-8"))

    return run


@pytest.fixture
def questions(home: Path) -> str:
    """Benchmark parameters that point at three questions in a local file."""
    path = home / "questions.jsonl"
    lines = [json.dumps(question, ensure_ascii=False) for question in QUESTIONS]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return json.dumps({"data_path": str(path)})
