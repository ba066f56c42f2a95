"""Agents at work under an ASCII locale and without a home: any text, any name, same score (C59).

The console, two runs at once, and a dead Prefect API are tested with whole runs in tests/flows.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.cases.rig import ask, measure
from tests.cases.toy import AGENTS, Toy, one_by_one, put, shell, submit, told
from tests.standins.model_endpoint import ModelServer
from tests.standins.model_script import Reply

NAME = "漢字 🧭.txt"
TEXT = "Größe: 多少 🧭"
MODEL = "模型 🧭"
SURROUNDINGS = {
    "LC_ALL": "C",
    "PYTHONUTF8": "0",
    "PYTHONCOERCECLOCALE": "0",
    "PYTHONIOENCODING": "ascii",
    "TERM": "dumb",
    "HOME": "/proc/none",
}
PROGRAM = "from tests.cases.test_c59_locale import work; work()"


def test_emoji_and_cjk_in_texts_and_names(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path)],
        env={**os.environ, **SURROUNDINGS},
        cwd=Path(__file__).parents[2],
        capture_output=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    for harness in AGENTS:
        (folder,) = (tmp_path / "results" / harness).glob("*/*")
        detail = json.loads((folder / "tasks/toy-1/detail.json").read_text(encoding="utf-8"))
        assert TEXT in detail["instruction"]
        (record,) = detail["attempts"]
        assert record["verdict"]["correct"] is True
        assert record["submission"]["answer"] == TEXT
        kept = {item["path"]: item for item in record["submission"]["artifacts"]}
        assert set(kept) == {"answer.txt", NAME}
        stored = folder / "tasks/toy-1/attempt-1/artifacts" / kept[NAME]["name"]
        assert stored.read_text(encoding="utf-8") == f"{TEXT}\n"
        assert MODEL in (folder / "summary.md").read_text(encoding="utf-8")


def work() -> None:
    """Both agents' runs, in a process of their own."""
    assert sys.getfilesystemencoding() == "ascii"
    for harness in AGENTS:
        run(Path(sys.argv[1]), harness)


def run(folder: Path, harness: str) -> None:
    write = shell(harness, f"echo '{TEXT}' > '{NAME}'")
    if harness == "tool_agent":
        file = {"path": NAME, "content": f"{TEXT}\n"}
        write = Reply(
            tool_calls=(
                {"name": "write_file", "id": "w", "arguments": file},
                {"name": "read_file", "id": "r", "arguments": {"path": NAME}},
            )
        )
    read = shell(harness, f"cat '{NAME}'; ls")
    with ModelServer(one_by_one(write, read, put(harness), submit(harness, TEXT))) as endpoint:
        request = ask(
            folder, "quickstart", harness, endpoint.base_url, model=MODEL, run_name=harness
        )
        ran = measure(request, speaking())
        assert endpoint.requests[0].body["model"] == MODEL
        assert TEXT in endpoint.requests[0].first_user
    assert f"{TEXT}\n{NAME}\n" in told(harness, ran.shown("toy-1")[-3])


def speaking() -> Toy:
    """The toy task with more to say."""
    benchmark = Toy()
    (sample,) = benchmark.samples
    task = sample.task.model_copy(update={"instruction": f"{sample.task.instruction} {TEXT}"})
    benchmark.samples = (sample.model_copy(update={"task": task}),)
    return benchmark
