"""Data and images move: what was measured on others is not taken over, and is told (C45).

Elsewhere: the fingerprint in tests/components/execution/test_fingerprint.py, revisions of hub data
in tests/components/datasets/test_hub.py, sandboxes pinned by digest in
tests/components/environments/test_docker_images.py.
"""

import io
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from tests.components.environments.docker_engine import IMAGE, client, needs_engine
from tests.flows.program import Ended, agentcompass
from tests.standins.model_endpoint import ModelServer
from tests.standins.model_script import Reply, RequestInfo

pytestmark = [
    pytest.mark.usefixtures("prefect_home"),
    pytest.mark.timeout(240),
]
QUIET = ("--progress", "none", "--json")


def row(number: int, wish: str = "Return") -> dict[str, str]:
    return {
        "task_id": f"toy/{number}",
        "prompt": f'def f{number}():\n    """{wish} {number}."""\n',
        "entry_point": f"f{number}",
        "canonical_solution": f"    return {number}\n",
        "test": f"def check(candidate):\n    assert candidate() == {number}\n",
    }


def write(folder: Path, *rows: dict[str, str]) -> None:
    text = "".join(json.dumps(one) + "\n" for one in rows)
    (folder / "data.jsonl").write_text(text, encoding="utf-8")


def details(run_dir: Path) -> dict[str, dict[str, Any]]:
    found = [json.loads(path.read_text()) for path in run_dir.glob("tasks/*/detail.json")]
    return {detail["task_id"]: detail for detail in found}


def origins(run_dir: Path) -> dict[str, str | None]:
    """Of each task's only attempt: the run it was taken from."""
    return {name: detail["attempts"][0]["origin"] for name, detail in details(run_dir).items()}


def told(ended: Ended, words: str) -> list[str]:
    return [line for line in ended.stderr.splitlines() if words in line]


def test_data_changed_between_two_runs_are_told_and_no_total_mixes_them(tmp_path: Path) -> None:
    broken = True

    def answer(request: RequestInfo) -> Reply:
        found = re.findall(r"def f(\d+)\(", request.first_user)
        number = int(found[-1]) if found else 0  # 0: preflight's call
        if broken and number in (3, 4):
            return Reply(text="out of order", status=500)
        return Reply(text=f"```python\ndef f{number}():\n    return {number}\n```")

    write(tmp_path, *map(row, (1, 2, 3, 4)))
    with ModelServer(answer) as endpoint:
        words = [
            "run", "humaneval", "openai_chat", "m", *QUIET,
            "--model-base-url", endpoint.base_url, "--model-api-key", "any",
            "--model-params", '{"max_retry_seconds": 0}',
            "--benchmark-params", '{"data_path": "data.jsonl"}',
        ]  # fmt: skip
        first = agentcompass(*words, "--run-id", "first", cwd=tmp_path)
        assert first.exit_code == 1, first.stderr
        assert first.document["scored"] == 2
        broken = False
        write(tmp_path, row(1, "Give back"), row(2), row(3), row(5))  # changed, kept, kept, new
        asked = len(endpoint.requests)
        second = agentcompass(*words, "--run-id", "second", "--reuse", cwd=tmp_path)
    assert second.exit_code == 0, second.stderr
    assert second.document["planned"] == second.document["scored"] == 4
    run_dir = Path(second.document["run_dir"])
    assert origins(run_dir) == {"toy/1": None, "toy/2": "first", "toy/3": None, "toy/5": None}
    solved = [one.first_user for one in endpoint.requests[asked:] if "def f" in one.first_user]
    assert not any("def f2(" in question for question in solved)
    (line,) = told(second, "toy/1 runs again")
    assert "content changed since first" in line
    (line,) = told(second, "are not in this one")
    assert line.endswith("not selected: toy/4")
    (line,) = told(second, "were not in run first")
    assert line.endswith(": toy/5")

    before, after = (
        json.loads((folder_of(one) / "run.json").read_text()) for one in (first, second)
    )
    assert before["dataset"]["content_hash"] != after["dataset"]["content_hash"]
    old, new = details(folder_of(first)), details(run_dir)
    assert old["toy/1"]["content_hash"] != new["toy/1"]["content_hash"]
    assert old["toy/2"]["content_hash"] == new["toy/2"]["content_hash"]


def folder_of(ended: Ended) -> Path:
    return Path(ended.document["run_dir"])


@contextmanager
def moving_tag() -> Iterator[tuple[str, Any]]:
    """A name for the test image, and a function that lets it mean another one."""
    engine = client()
    name = f"agentcompass-test/c45-{uuid4().hex[:12]}"
    made = []

    def move() -> None:
        recipe = io.BytesIO(f"FROM {IMAGE}\nLABEL c45={uuid4().hex}\n".encode())
        image, _ = engine.images.build(fileobj=recipe, tag=f"{name}:latest", rm=True)
        made.append(image.id)

    try:
        move()
        yield f"{name}:latest", move
    finally:
        for one in made:
            engine.images.remove(one, force=True)
        engine.close()


@needs_engine
def test_an_image_whose_name_moved_is_noticed(tmp_path: Path) -> None:
    with moving_tag() as (name, move):
        words = [
            "run", "quickstart", "oracle", "scripted", *QUIET,
            "--benchmark-params", '{"limit": 2}',
            "--env", "docker", "--env-params", json.dumps({"setup": {"image": name}}),
        ]  # fmt: skip
        first = agentcompass(*words, "--run-id", "first", cwd=tmp_path)
        assert first.exit_code == 0, first.stderr
        same = agentcompass(*words, "--run-id", "same", "--reuse", cwd=tmp_path)
        assert set(origins(folder_of(same)).values()) == {"first"}, same.stderr
        assert told(same, "runs again") == []
        move()
        other = agentcompass(*words, "--run-id", "other", "--reuse", cwd=tmp_path)
    assert other.exit_code == 0, other.stderr
    assert set(origins(folder_of(other)).values()) == {None}
    lines = told(other, "runs again")
    assert len(lines) == 2, other.stderr
    assert all("the image's name means another one now" in line for line in lines)
    images = [
        {detail["attempts"][0]["image"] for detail in details(folder_of(ended)).values()}
        for ended in (first, other)
    ]
    assert [len(names) for names in images] == [1, 1]
    assert images[0] != images[1]
    assert all(next(iter(names)).startswith("sha256:") for names in images)
