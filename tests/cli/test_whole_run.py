"""The command as a user types it, on a real local server: slow, and the only proof of the whole."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import QUESTIONS

COMMAND = [sys.executable, "-m", "agentcompass"]
ASCII_ONLY = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONIOENCODING": "ascii", "TERM": "dumb"}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, dict[str, str]]]:
    """A folder with a data set, and an environment whose Prefect server is this module's own."""
    folder = tmp_path_factory.mktemp("whole-run")
    lines = [json.dumps(question, ensure_ascii=False) for question in QUESTIONS]
    (folder / "questions🙂.jsonl").write_text("\n".join(lines), encoding="utf-8")
    environment = {n: v for n, v in os.environ.items() if not n.startswith("PREFECT_")}
    environment["PREFECT_HOME"] = str(folder / "prefect")
    subprocess.run([*COMMAND, "server", "start"], env=environment, check=True, timeout=200)
    yield folder, environment
    subprocess.run([*COMMAND, "server", "stop"], env=environment, check=True, timeout=60)


@pytest.mark.parametrize("more", [[], ["--json"]])
def test_files_of_an_ascii_locale_hold_the_score_and_no_control_characters(
    world: tuple[Path, dict[str, str]], more: list[str]
) -> None:
    folder, environment = world
    out, err = folder / "out", folder / "err"
    with out.open("wb") as stdout, err.open("wb") as stderr:
        done = subprocess.run(
            [*COMMAND, "run", "gsm8k", "oracle", "scripted", "--run-name", "ascii", *more]
            + ["--benchmark-params", '{"data_path": "questions🙂.jsonl"}'],
            stdout=stdout,
            stderr=stderr,
            env=environment | ASCII_ONLY,
            cwd=folder,
            timeout=200,
            check=False,
        )
    shown, told = out.read_text(encoding="utf-8"), err.read_text(encoding="utf-8")
    assert done.returncode == 0, told
    for text in (shown, told):
        assert "\r" not in text
        assert "\x1b" not in text
        assert "database is locked" not in text
    if more:
        document = json.loads(shown)
        assert document["metrics"]["headline"]["value"] == 1.0
        run_dir = Path(document["run_dir"])
    else:
        assert shown.splitlines()[0].split() == ["native@1", "1"]
        run_dir = Path(shown.splitlines()[-1])
    assert run_dir.parent.parent == folder / "results" / "ascii"
    details = [path.read_text(encoding="utf-8") for path in run_dir.glob("tasks/*/detail.json")]
    assert len(details) == len(QUESTIONS)
    assert any("🙂 漢字" in detail for detail in details)


def test_ctrl_c_in_the_middle_keeps_what_is_there_and_says_so(
    world: tuple[Path, dict[str, str]],
) -> None:
    folder, environment = world
    slow = {"script": {"default": {"content": "#### 2", "delay_seconds": 60}}}
    process = subprocess.Popen(
        [*COMMAND, "run", "gsm8k", "openai_chat", "scripted", "--run-id", "cut"]
        + ["--benchmark-params", '{"data_path": "questions🙂.jsonl"}']
        + ["--model-params", json.dumps(slow)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment,
        cwd=folder,
        encoding="utf-8",
    )
    assert process.stderr is not None
    told = []
    for line in process.stderr:
        told.append(line)
        if "attempts done · " in line:
            break
    time.sleep(1)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=200)
    assert process.returncode == 130, "".join(told) + err
    assert "Traceback" not in out + err
    assert "agentcompass: interrupted; what was finished is kept" in err.splitlines()
    assert err.splitlines()[-1].endswith("--reuse=cut")
    run_dir = Path(out.splitlines()[-1])
    assert run_dir.name == "cut"
    assert json.loads((run_dir / "progress.json").read_text("utf-8"))["state"] == "interrupted"
