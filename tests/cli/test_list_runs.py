"""`agentcompass list runs` from the results folder; with an API: flows/test_deployments.py."""

import fcntl
import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Cli


def run_folder(
    root: Path, started: str, state: str, score: float | None = None, **more: Any
) -> Path:
    root.mkdir(parents=True)
    request = {"benchmark": {"id": "b"}, "harness": {"id": "h"}, "model": {"id": "org/m"}}
    document = {"schema_version": 1, "state": state, "started_at": started, **more}
    (root / "run.json").write_text(json.dumps({**document, "plan": {"request": request}}))
    if score is not None:
        (root / "metrics.json").write_text(json.dumps({"headline": {"value": score}}))
    return root


def rows(cli: Cli, *words: str) -> list[dict[str, Any]]:
    answer = cli("list", "runs", "--json", *words)
    assert (answer.code, answer.err) == (0, "")
    found: list[dict[str, Any]] = json.loads(answer.out)
    return found


def test_newest_first_with_state_and_score(cli: Cli, home: Path) -> None:
    run_folder(home / "results/n/one", "2026-01-01T10:00:00+00:00", "finished", 0.25)
    run_folder(home / "results/night/n/two", "2026-01-03T10:00:00+01:00", "failed", None)
    dead = run_folder(home / "results/n/three", "2026-01-02T10:00:00+00:00", "running")
    (dead / "lease.json").write_text("{}")
    damaged = run_folder(home / "results/n/four", "2026-01-02T10:00:00+00:00", "finished")
    (damaged / "run.json").write_text("{")
    assert [(row["id"], row["state"], row["score"]) for row in rows(cli)] == [
        ("two", "failed", None),
        ("three", "crashed", None),
        ("one", "finished", 0.25),
    ]
    assert rows(cli)[2]["where"] == str(home / "results/n/one")
    with (dead / "lease.json").open("r") as lease:
        fcntl.flock(lease, fcntl.LOCK_EX)
        assert rows(cli)[1]["state"] == "running"
    lines = cli("list", "runs").out.splitlines()
    assert lines[0].split() == ["id", "run", "state", "score", "started", "where", "note"]
    assert lines[3].split()[:6] == ["one", "b", "·", "h", "·", "org/m"]


def test_a_failed_run_says_why_and_runs_made_from_others_are_told_apart(
    cli: Cli, home: Path
) -> None:
    long = "model.quota: nothing is left of what was paid for " * 3
    root, started = home / "results/n", "2026-01-0{}T10:00:00+00:00".format
    run_folder(root / "one", started(1), "failed", problem=long)
    run_folder(root / "two", started(2), "finished", rescored={"run_id": "one"})
    run_folder(root / "three", started(3), "timed_out", continued_at=["…", "…"])
    run_folder(root / "four", started(4), "running")
    run_folder(root / "five", started(5), "finished", rescored={"run_id": "five"})
    run_folder(root / "six", started(6), "finished", rescored="damaged")
    notes = [line.partition("results/n/")[2] for line in cli("list", "runs").out.splitlines()[1:]]
    assert [note.split(maxsplit=1)[1:] for note in notes[:-1]] == [
        ["rescored in place"],
        ["its process is gone"],
        ["continued 2 times"],
        ["rescored from one"],
    ]
    assert notes[-1].split()[1] == "model.quota:"
    assert len(notes[-1]) < 100
    assert notes[-1].endswith("…")
    assert rows(cli)[-1]["problem"] == long
    assert [row["rescored_from"] for row in rows(cli)] == ["five", None, None, "one", None]


def test_a_folder_has_one_row_however_many_flow_runs_wrote_to_it(
    cli: Cli, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A retried launch and a rescore in place make flow runs of their own."""
    from agentcompass.components.results.found_runs import FoundRun
    from agentcompass.flows import handing_over

    here = run_folder(home / "results/n/one", "2026-01-01T10:00:00+00:00", "finished", 1)

    def flow_run(name: str, folder: str) -> FoundRun:
        return FoundRun(
            name, "b · h · m", "failed", "why", "", 1, None, folder, None, name, "http://"
        )

    known = [
        flow_run("a retry", str(here)),
        flow_run("latest", "/elsewhere/n/two"),
        flow_run("first", "/elsewhere/n/two"),
        flow_run("tonight", ""),
        flow_run("tomorrow", ""),
    ]
    monkeypatch.setattr(handing_over, "recorded_runs", lambda limit: known)
    assert [row["id"] for row in rows(cli)] == ["one", "latest", "tonight", "tomorrow"]
    assert "continued 1 time; why" in cli("list", "runs").out.splitlines()[2]


def test_another_root_and_the_configured_one(cli: Cli, home: Path) -> None:
    run_folder(home / "mine/n/one", "2026-01-01T10:00:00+00:00", "finished", 1)
    assert rows(cli) == []
    assert [row["id"] for row in rows(cli, "--results-dir", "mine")] == ["one"]
    Path("agentcompass.yaml").write_text("runtime: {results_dir: mine}\n", encoding="utf-8")
    assert [row["id"] for row in rows(cli)] == ["one"]
