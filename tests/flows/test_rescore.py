"""Judging kept work again: a corrected grader changes exactly the verdicts it was wrong about."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.flows.program import Ended, agentcompass
from tests.flows.toy_words import toy_words, write_rules

pytestmark = pytest.mark.usefixtures("prefect_home")

WRONG = {"apple": ["pear"], "banana": []}
"""The grader takes a pear for an apple, and no banana at all."""


@dataclass(frozen=True)
class World:
    folder: Path
    env: dict[str, str]

    def __call__(self, *words: str, **env: str) -> Ended:
        return agentcompass(*words, cwd=self.folder, **self.env, **env)

    def rules(self, **rules: object) -> None:
        write_rules(self.folder, **rules)

    def first_run(self, *more: str) -> Path:
        script = self.folder / "script.json"
        script.write_text(
            json.dumps(
                {
                    "tasks": {
                        word: {"attempts": {"1": [word], "2": ["pear"]}}
                        for word in ("apple", "avocado", "banana", "blueberry")
                    }
                }
            )
        )
        ended = self(
            *("run", "toy_words", "openai_chat", "scripted", "--json", "--progress", "none"),
            *("--model-params", json.dumps({"script": str(script)}), *more),
        )
        assert ended.exit_code in (0, 1), ended.stderr
        script.unlink()  # from here on an agent could not answer
        return Path(ended.document["run_dir"])


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path, toy_words(tmp_path))


def values(run_dir: Path) -> dict[str, list[float | None]]:
    found = {}
    for path in sorted(run_dir.glob("tasks/*/detail.json")):
        detail = json.loads(path.read_bytes())
        found[detail["task_id"]] = [
            float(attempt["verdict"]["correct"]) if attempt["verdict"] else None
            for attempt in detail["attempts"]
        ]
    return found


def contents(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def record(run_dir: Path, task: str, attempt: int) -> dict[str, Any]:
    detail = json.loads((run_dir / "tasks" / task / "detail.json").read_bytes())
    found: dict[str, Any] = detail["attempts"][attempt - 1]
    return found


def test_a_corrected_grader_changes_exactly_the_wrong_verdicts(world: World) -> None:
    world.rules(accept=WRONG)
    first = world.first_run("--k", "2")
    assert values(first) == {
        "apple": [0, 1],
        "avocado": [1, 0],
        "banana": [0, 0],
        "blueberry": [1, 0],
    }
    before = contents(first)

    # The agent, its model and its key are gone: nothing of them is needed.
    document = json.loads((first / "run.json").read_bytes())
    request = document["plan"]["request"]
    request["harness"]["id"] = document["plan"]["harness"]["id"] = "gone_agent"
    request["model"] |= {"id": "m", "base_url": "http://127.0.0.1:9", "api_key": {"env": "NO_KEY"}}
    document["plan"]["model_protocol"] = "gone-protocol"
    (first / "run.json").write_text(json.dumps(document))
    before["run.json"] = (first / "run.json").read_bytes()

    world.rules(accept={})
    ended = world("rescore", str(first), "--json", "--progress", "none", TOY_VERSION="2")
    assert ended.exit_code == 0, ended.stderr
    again = Path(ended.document["run_dir"])
    assert again.parent == first.parent
    assert values(again) == {word: [1, 0] for word in values(first)}
    assert ended.document["rescored"]["changed"] == [
        {"task_id": "apple", "attempt": 1, "before": 0.0, "after": 1.0},
        {"task_id": "apple", "attempt": 2, "before": 1.0, "after": 0.0},
        {"task_id": "banana", "attempt": 1, "before": 0.0, "after": 1.0},
    ]
    assert ended.document["metrics"]["headline"]["value"] == 0.5
    assert contents(first) == before

    told = json.loads((again / "run.json").read_bytes())
    assert told["plan"]["benchmark"]["version"] == "2"
    assert told["rescored"]["run_id"] == first.name
    assert told["rescored"]["benchmark"]["version"] == "1"
    assert told["rescored"]["judged_again"] == 8
    old, new = (record(run, "apple", 1) for run in (first, again))
    assert new["origin"] == first.name
    for name in ("usage", "started_at", "ended_at", "submission", "harness_version"):
        assert new[name] == old[name]
    assert "agentcompass rescore" in (again / "summary.md").read_text()

    # And what was judged twice can be judged a third time, from where it is now.
    third = world("rescore", str(again), "--progress", "none")
    assert (third.exit_code, values(third.run_dir)) == (0, values(again))
    assert record(third.run_dir, "apple", 1)["origin"] == first.name


def test_a_corrected_key_is_judged_and_another_task_is_not(world: World) -> None:
    world.rules(accept=WRONG)
    first = world.first_run()
    world.rules(accept={}, key="corrected")
    ended = world("rescore", str(first), "--output", "judged/anew", "--progress", "none")
    assert ended.exit_code == 0, ended.stderr
    assert ended.run_dir == world.folder / "judged/anew"
    assert values(ended.run_dir) == {word: [1] for word in values(first)}
    told = json.loads((ended.run_dir / "run.json").read_bytes())
    assert len(told["rescored"]["tasks_changed"]) == 4

    taken = world("rescore", str(first), "--output", "judged/anew")
    assert taken.exit_code == 2
    assert "exists already" in taken.stderr

    world.rules(accept={}, say="Never say ")
    other = world("rescore", str(first), "--progress", "none")
    assert values(other.run_dir) == values(first)
    assert "0 judged again, 0 verdicts changed, 4 kept as they were" in other.stdout


def test_override_waits_until_every_attempt_has_a_verdict(world: World) -> None:
    world.rules(accept=WRONG)
    first = world.first_run("--benchmark-params", '{"sandbox": true}')
    (first / "my-notes.md").write_text("mine")
    before = values(first)
    world.rules(accept={}, crash=["banana"])
    refused = world("rescore", str(first), "--override", "--json", "--progress", "none")
    assert refused.exit_code == 1
    assert "nothing was replaced, 1 attempts have no verdict now" in refused.stderr
    assert refused.document["rescored"]["unjudged"] == 1
    assert values(first) == before

    world.rules(accept={})
    done = world("rescore", str(first), "--override", "--progress", "none")
    assert done.exit_code == 0, done.stderr
    assert done.run_dir == first
    assert values(first) == {word: [1] for word in before}
    assert (first / "my-notes.md").read_text() == "mine"
    assert json.loads((first / "run.json").read_bytes())["run_id"] == first.name
    assert not [path for path in first.parent.iterdir() if path.name.startswith(".")]


def test_what_cannot_be_judged_again_keeps_its_outcome(world: World) -> None:
    world.rules(accept=WRONG)
    first = world.first_run("--k", "2")
    (first / "tasks/apple/attempt-1/checkpoint.json").unlink()
    world.rules(accept={}, verification={"banana": "reuse"})
    ended = world("rescore", str(first), "--json", "--progress", "none")
    assert ended.exit_code == 0, ended.stderr
    again = Path(ended.document["run_dir"])
    assert values(again) == {**values(first), "apple": [0, 0]}
    kept = json.loads((again / "run.json").read_bytes())["rescored"]["kept"]
    assert [(one["task_id"], one["attempt"], one["why"].split()[-1]) for one in kept] == [
        ("apple", 1, "checkpoint"),
        ("banana", 1, "sandbox"),
        ("banana", 2, "sandbox"),
    ]


def test_the_first_success_may_be_another_one(world: World) -> None:
    """`pass`: an attempt that was never made is missing, one that is not needed is skipped."""
    world.rules(accept={"apple": ["pear"], "banana": []})
    first = world.first_run("--k", "2", "--attempt-strategy", "pass")
    world.rules(accept={"avocado": ["pear"]})
    ended = world("rescore", str(first), "--json", "--progress", "none")
    assert ended.exit_code == 1, ended.stderr
    coverage = ended.document["metrics"]["coverage"]
    # avocado's first attempt was its success and its second never made: nothing to judge there.
    assert [m["task_id"] for m in coverage["missing_attempts"]] == ["avocado"]
    assert values(Path(ended.document["run_dir"]))["apple"] == [1, None]


def test_wrong_input_is_one_line(world: World) -> None:
    world.rules(accept={})
    first = world.first_run()
    for words, said in {
        ("nowhere",): "RUN_DIR",
        (str(first), "--override", "--output", "x"): "override: does not go with --output",
        (str(first), "--benchmark-params", '{"limit": 1}'): "benchmark-params.limit: the tasks",
        (str(first), "--env-params", '{"nope": 1}'): "env-params.nope",
    }.items():
        ended = world("rescore", *words)
        assert ended.exit_code == 2, ended.stderr
        assert said in ended.stderr
        assert ended.stderr.count("\n") == 1


def test_the_numbers_can_be_made_again_from_the_details(world: World) -> None:
    world.rules(accept=WRONG)
    first = world.first_run("--k", "2")
    before = contents(first)
    moved = world.folder / "moved"
    first.rename(moved)
    for name in ("metrics.json", "summary.md", "attempts.parquet"):
        (moved / name).unlink()
    ended = world("summary", str(moved))
    assert ended.exit_code == 0, ended.stderr
    assert ended.run_dir == moved / "summary.md"
    after = contents(moved)
    assert after["metrics.json"] == before["metrics.json"]
    assert after["summary.md"] == before["summary.md"]
    assert sorted(after) == sorted(before)
    document = world("summary", str(moved), "--json").document
    assert document["metrics"]["headline"]["value"] == 0.375
