"""A request of a launch that must stop stops by itself: the others go on to their end."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.flows.program import agentcompass

pytestmark = pytest.mark.usefixtures("prefect_home")


def test_a_used_up_quota_ends_one_request_only(tmp_path: Path) -> None:
    used_up = {"error": {"code": "model.quota", "message": "nothing is left"}}
    slow = {"content": "ANSWER: 1", "delay_seconds": 6}
    requests = [
        {
            "benchmark": {"id": "quickstart", "limit": 2},
            "harness": "openai_chat",
            "model": {"id": "scripted", "params": {"script": {"default": reply}}},
        }
        for reply in (used_up, slow)
    ]
    (tmp_path / "l.json").write_text(json.dumps({"version": 1, "requests": requests}))
    ended = agentcompass("launch", "l.json", "--json", "--progress", "none", cwd=tmp_path)
    stopped, finished = ended.document["requests"]
    assert stopped["outcome"]["state"] == "failed", ended.stderr
    assert (finished["outcome"]["state"], finished["outcome"]["scored"]) == ("finished", 2)
    assert finished["exit_code"] == 0
    for row in in_one_vocabulary(tmp_path):
        assert ("nothing is left" in row["problem"]) is (row["state"] == "failed")


def in_one_vocabulary(folder: Path) -> list[dict[str, Any]]:
    """What `list runs` tells: the same from the folders as from the API alone."""
    told = []
    for root in ("results", "none"):
        listed = agentcompass("list", "runs", "--json", "--results-dir", root, cwd=folder)
        rows = json.loads(listed.stdout)
        ours = [row for row in rows if Path(row["where"]).is_relative_to(folder)]
        told.append({row["where"]: row["state"] for row in ours})
        assert sorted(row["state"] for row in ours) == ["failed", "finished"]
    assert told[0] == told[1]
    return ours
