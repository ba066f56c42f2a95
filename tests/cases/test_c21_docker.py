"""Floods out of three containers at once are cut while they are read (C21 in Docker)."""

import asyncio
from pathlib import Path

import psutil

from tests.cases.in_docker import InDocker
from tests.cases.rig import UnderWay, ask, measure
from tests.cases.test_c21_floods import CAP, EXIT_CODES, FLOODS, HUGE
from tests.cases.toy import Toy, number, one_by_one, shell, solving, told
from tests.components.environments.docker_engine import needs_engine
from tests.standins.model_endpoint import ModelServer
from tests.standins.model_script import Reply, RequestInfo

pytestmark = needs_engine

AGENT = "tool_agent"


def test_three_floods_and_a_huge_file_at_once(tmp_path: Path) -> None:
    memory_mb: list[float] = []

    async def watch(run: UnderWay) -> None:
        process = psutil.Process()
        while run.progress.scored < 3:
            memory_mb.append(process.memory_info().rss / 2**20)
            await asyncio.sleep(0.01)

    def answer(request: RequestInfo) -> Reply:
        task = number(request)
        flood = shell(AGENT, FLOODS[task])
        return one_by_one(*solving(AGENT, flood, shell(AGENT, HUGE), value=task))(request)

    with ModelServer(answer) as endpoint:
        request = ask(tmp_path, "quickstart", AGENT, endpoint.base_url)
        ran = measure(request, Toy(3), watch=watch, environments=InDocker)
    assert ran.metrics.headline.value == 1.0
    assert max(memory_mb) - memory_mb[0] < 100
    for task in FLOODS:
        assert told(AGENT, ran.shown(f"toy-{task}")[0]).startswith(f"{EXIT_CODES[task]}: ")
        record = ran.record(f"toy-{task}")
        assert [note.code for note in record.notes] == ["artifact.limit"]
        assert record.notes[0].message.startswith("huge.bin: 2147483648 bytes")
        assert [a.path for a in record.submission.artifacts] == ["answer.txt"]  # type: ignore[union-attr]
    assert all(path.stat().st_size < 2 * CAP for path in ran.folder.rglob("*"))
