"""Whose runs are marked as crashed: those of processes of this machine that are gone."""

import asyncio
import json
import socket
from dataclasses import asdict
from pathlib import Path
from uuid import uuid4

import pytest

from agentcompass.components.results.lease import RunLease
from agentcompass.components.results.paths import RunFolder

GONE = 2**22 + 1  # above what Linux gives out


@pytest.fixture
def marked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    from agentcompass.flows import dead_runs

    asked: list[str] = []

    async def mark(note: dead_runs.Note) -> None:
        asked.append(note.flow_run_id)

    monkeypatch.setenv("PREFECT_HOME", str(tmp_path))
    monkeypatch.setenv("PREFECT_API_URL", "http://127.0.0.1:1/api")
    monkeypatch.setattr(dead_runs, "_mark", mark)
    return asked


def leave(name: str, **other: object) -> Path:
    from agentcompass.flows import dead_runs

    note = dead_runs.Note(GONE, 1.0, name, "", "http://127.0.0.1:1/api", socket.gethostname())
    path = dead_runs._folder() / f"{name}.json"
    path.write_text(json.dumps(asdict(note) | other))
    return path


def test_what_a_process_of_this_machine_left_is_marked_and_forgotten(marked: list[str]) -> None:
    from agentcompass.flows.dead_runs import mark_dead_runs

    left = leave("ours")
    asyncio.run(mark_dead_runs())
    assert marked == ["ours"]
    assert not left.exists()


def test_runs_of_another_machine_or_another_api_are_left_alone(marked: list[str]) -> None:
    from agentcompass.flows.dead_runs import mark_dead_runs

    others = [
        leave("machine", host="another-machine"),
        leave("api", api_url="http://127.0.0.1:2/api"),
    ]
    asyncio.run(mark_dead_runs())
    assert marked == []
    assert all(path.exists() for path in others)


def test_a_folder_that_is_worked_in_again_is_no_dead_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from agentcompass.flows import dead_runs

    def nobody_asks() -> None:
        pytest.fail("a living run would be marked")

    monkeypatch.setattr(dead_runs, "get_client", nobody_asks)
    folder = RunFolder(tmp_path / "run")
    folder.root.mkdir()
    lease = RunLease(folder.lease)
    lease.take()
    note = dead_runs.Note(GONE, 1.0, str(uuid4()), str(folder.root), "", socket.gethostname())
    try:
        asyncio.run(dead_runs._mark(note))
    finally:
        lease.release()
