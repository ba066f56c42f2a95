"""`agentcompass list runs` from the results folder; with an API: flows/test_deployments.py."""

import fcntl
import json
from pathlib import Path
from typing import Any

from tests.cli.conftest import Cli


def run_folder(root: Path, started: str, state: str, score: float | None = None) -> Path:
    root.mkdir(parents=True)
    request = {"benchmark": {"id": "b"}, "harness": {"id": "h"}, "model": {"id": "org/m"}}
    document = {"schema_version": 1, "state": state, "started_at": started}
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
    assert lines[0].split() == ["id", "run", "state", "score", "started", "where"]
    assert lines[3].split()[:6] == ["one", "b", "·", "h", "·", "org/m"]


def test_another_root_and_the_configured_one(cli: Cli, home: Path) -> None:
    run_folder(home / "mine/n/one", "2026-01-01T10:00:00+00:00", "finished", 1)
    assert rows(cli) == []
    assert [row["id"] for row in rows(cli, "--results-dir", "mine")] == ["one"]
    Path("agentcompass.yaml").write_text("runtime: {results_dir: mine}\n", encoding="utf-8")
    assert [row["id"] for row in rows(cli)] == ["one"]
