"""A command or a file larger than memory is cut while it is read, and the cut is told (C21)."""

import asyncio
from pathlib import Path

import psutil
import pytest

from tests.cases.rig import UnderWay, ask, measure
from tests.cases.toy import AGENTS, Toy, number, one_by_one, shell, solving, told
from tests.standins.model_endpoint import ModelServer
from tests.standins.model_script import Reply, RequestInfo

SIZE = 100_000_000
FLOODS = {
    1: f"yes | head -c {SIZE}; exit 3",
    2: f"head -c {SIZE} /dev/zero | tr '\\0' A",
    3: f"head -c {SIZE} /dev/zero | tr '\\0' B >&2",
}
EXIT_CODES = {1: 3, 2: 0, 3: 0}
HUGE = "truncate -s 2G huge.bin"
CAP = 256 * 1024


@pytest.mark.parametrize("harness", AGENTS)
def test_three_floods_and_a_huge_file_at_once(tmp_path: Path, harness: str) -> None:
    memory_mb: list[float] = []

    async def watch(run: UnderWay) -> None:
        process = psutil.Process()
        while run.progress.scored < 3:
            memory_mb.append(process.memory_info().rss / 2**20)
            await asyncio.sleep(0.01)

    def answer(request: RequestInfo) -> Reply:
        task = number(request)
        flood = shell(harness, FLOODS[task])
        return one_by_one(*solving(harness, flood, shell(harness, HUGE), value=task))(request)

    with ModelServer(answer) as endpoint:
        ran = measure(ask(tmp_path, "quickstart", harness, endpoint.base_url), Toy(3), watch=watch)
        sent = max(len(str(request.body)) for request in endpoint.requests)
    assert ran.metrics.headline.value == 1.0
    assert max(memory_mb) - memory_mb[0] < 100
    assert sent < 2 * CAP
    for task in FLOODS:
        output = told(harness, ran.shown(f"toy-{task}")[0])
        assert output.startswith(f"{EXIT_CODES[task]}: ")
        record = ran.record(f"toy-{task}")
        assert [note.code for note in record.notes] == ["artifact.limit"]
        assert record.notes[0].message.startswith("huge.bin: 2147483648 bytes")
        assert [a.path for a in record.submission.artifacts] == ["answer.txt"]  # type: ignore[union-attr]
    assert all(path.stat().st_size < 2 * CAP for path in ran.folder.rglob("*"))
    again = measure(ask(tmp_path, "quickstart", harness, endpoint.base_url), Toy(3), reuse=ran)
    assert again.metrics.headline.value == 1.0  # the endpoint is gone: nothing was asked
    assert again.seconds < 10
    assert "artifact.limit" in again.summary
    assert "huge.bin" in (ran.folder / "analysis" / "analysis.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("harness", AGENTS)
def test_the_agent_is_told_how_much_it_does_not_see(tmp_path: Path, harness: str) -> None:
    with ModelServer(one_by_one(*solving(harness, shell(harness, FLOODS[2])))) as endpoint:
        ran = measure(ask(tmp_path, "quickstart", harness, endpoint.base_url), Toy())
    assert f"{SIZE - CAP} bytes" in ran.shown("toy-1")[0]


def test_the_cap_is_the_users(tmp_path: Path) -> None:
    flood = shell("tool_agent", "head -c 100000 /dev/zero | tr '\\0' A")
    with ModelServer(one_by_one(*solving("tool_agent", flood))) as endpoint:
        request = ask(tmp_path, "quickstart", "tool_agent", endpoint.base_url, output_limit_kb=4)
        ran = measure(request, Toy())
    assert ran.shown("toy-1")[0].count("A") == 4096
