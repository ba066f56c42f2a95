"""Many sandboxes and much output: handles, memory and the event loop stay within bounds."""

import asyncio
import json
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from agentcompass.components.contracts.attempt import AttemptKey
from agentcompass.components.contracts.requirements import Requirements
from agentcompass.components.contracts.sandbox import CaptureLimits, SandboxLabel
from agentcompass.components.environments.host_process import HostProcess, HostProcessParameters


def label(number: int) -> SandboxLabel:
    return SandboxLabel("load", AttemptKey(task_id=f"task {number}", index=1))


async def one(temp_dir: Path, number: int, line: str = "echo $0 ok") -> str:
    provider = HostProcess(HostProcessParameters(temp_dir=str(temp_dir)))
    async with provider.open(Requirements(), label(number)) as env:
        await env.write_file("f", b"x")
        assert await env.read_file("f") == b"x"
        return (await env.exec(line, stdin=b"x")).stdout


def test_a_hundred_sandboxes_leave_no_handle_and_no_process(tmp_path: Path) -> None:
    async def run() -> None:
        await one(tmp_path, 0)
        process = psutil.Process()
        handles, children = process.num_fds(), set(process.children(True))
        for number in range(100):
            await one(tmp_path, number)
        assert process.num_fds() <= handles
        assert set(process.children(True)) == children

    asyncio.run(run())
    assert list(tmp_path.iterdir()) == []


def test_sixty_four_run_at_once(tmp_path: Path) -> None:
    """Each waits until all 64 are there: any hidden limit would hang them."""
    meet = tmp_path / "meet"
    meet.mkdir()
    workspaces = tmp_path / "workspaces"
    workspaces.mkdir()
    line = "touch {0}/{1}; until [ $(ls {0} | wc -l) -ge 64 ]; do sleep 0.3; done; echo met"

    async def run() -> None:
        async with asyncio.timeout(120):
            tasks = [one(workspaces, number, line.format(meet, number)) for number in range(64)]
            assert await asyncio.gather(*tasks) == ["met\n"] * 64

    asyncio.run(run())
    assert list(workspaces.iterdir()) == []


def test_the_event_loop_runs_on_while_sandboxes_work(tmp_path: Path) -> None:
    late = []

    async def watch() -> None:
        while True:
            started = time.monotonic()
            await asyncio.sleep(0.05)
            late.append(time.monotonic() - started - 0.05)

    async def deadline() -> float:
        started = time.monotonic()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(3):
                await one(tmp_path, 99, "sleep 100")
        return time.monotonic() - started

    async def run() -> None:
        watching = asyncio.create_task(watch())
        started = time.monotonic()
        ended, *_ = await asyncio.gather(
            deadline(),
            *(one(tmp_path, number, "head -c 20M /dev/zero; sleep 5") for number in range(8)),
        )
        watching.cancel()
        assert 3 <= ended < 8  # the deadline, and the end of what ran
        assert time.monotonic() - started < 20
        assert sorted(late)[-2] < 1

    asyncio.run(run())


SCARCE = """
import asyncio, resource, sys
from pathlib import Path
from tests.components.environments.test_host_process_load import one

resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))

async def run():
    line = "echo out; echo err >&2; sleep 1; (sleep 1000; echo) & echo ok"
    results = await asyncio.gather(*(one(Path(sys.argv[1]), i, line) for i in range(32)))
    assert results == ["out\\nok\\n"] * 32, results

asyncio.run(run())
"""


def test_few_handles_are_enough_for_32_sandboxes(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCARCE, str(tmp_path)],
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert done.returncode == 0, done.stderr
    assert list(tmp_path.iterdir()) == []


FLOOD = """
import asyncio, json, resource, sys
from agentcompass.components.contracts.requirements import Requirements
from agentcompass.components.environments.host_process import HostProcess, HostProcessParameters
from tests.components.environments.test_host_process_load import label

def peak_mb():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024

async def flood(number, line):
    provider = HostProcess(HostProcessParameters(temp_dir=sys.argv[1]))
    async with provider.open(Requirements(), label(number)) as env:
        result = await env.exec(line)
        return [result.exit_code, len(result.stdout), len(result.stderr),
                result.stdout_dropped_bytes, result.stderr_dropped_bytes]

async def run():
    base = peak_mb()
    results = await asyncio.gather(*(flood(i, line) for i, line in enumerate(sys.argv[2:])))
    print(json.dumps({"grown_mb": peak_mb() - base, "results": results}))

asyncio.run(run())
"""


def flood(temp_dir: Path, *lines: str) -> tuple[float, list[list[int]]]:
    done = subprocess.run(
        [sys.executable, "-c", FLOOD, str(temp_dir), *lines],
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        timeout=250,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    return told["grown_mb"], told["results"]


def test_a_flood_of_output_does_not_fill_memory(tmp_path: Path) -> None:
    size = 300_000_000
    grown_mb, results = flood(
        tmp_path,
        f"yes | head -c {size}; exit 3",
        f"head -c {size} /dev/zero | tr '\\0' A",
        f"head -c {size} /dev/zero | tr '\\0' B >&2",
    )
    assert grown_mb < 40
    limit = 256 * 1024
    for (code, out, err, out_dropped, err_dropped), expected in zip(
        results, (3, 0, 0), strict=True
    ):
        assert code == expected
        assert max(out, err) < limit + 100
        assert max(out_dropped, err_dropped) == size - limit


def test_a_huge_artifact_is_left_out_by_name(tmp_path: Path) -> None:
    async def run() -> None:
        provider = HostProcess(HostProcessParameters(temp_dir=str(tmp_path)))
        async with provider.open(Requirements(), label(1)) as env:
            await env.exec("truncate -s 2G huge; echo x > small")
            capture = await env.capture(".", CaptureLimits(max_bytes=1_000_000))
            assert [file.path for file in capture.files] == ["small"]
            assert capture.left_out == (
                "huge: 2147483648 bytes, over the limit of 1000000 bytes in all",
            )

    asyncio.run(run())


def test_a_capture_of_too_many_files_names_only_some(tmp_path: Path) -> None:
    async def run() -> None:
        provider = HostProcess(HostProcessParameters(temp_dir=str(tmp_path)))
        async with provider.open(Requirements(), label(1)) as env:
            await env.exec("mkdir d; seq 3000 | xargs -I{} echo d/f{} | xargs touch")
            capture = await env.capture("d")
            assert len(capture.files) == 1000
            assert len(capture.left_out) == 201
            assert capture.left_out[-1] == "and 1800 more: not named"

    asyncio.run(run())
