"""Many docker sandboxes at once: none is in another's way, and no handle stays."""

import json
import secrets
import subprocess
import sys
from pathlib import Path

from tests.components.environments.docker_engine import IMAGE, containers_of, needs_engine

pytestmark = needs_engine

MANY = """
import asyncio, json, os, sys, threading
from agentcompass.components.contracts.attempt import AttemptKey
from agentcompass.components.contracts.requirements import Requirements
from agentcompass.components.contracts.sandbox import SandboxLabel
from agentcompass.components.environments.docker import Docker, DockerParameters

run_id, image, count = sys.argv[1], sys.argv[2], int(sys.argv[3])

def handles():
    return len(os.listdir("/proc/self/fd"))

async def one(provider, index, barrier, seen):
    label = SandboxLabel(run_id, AttemptKey(task_id=f"task {index}", index=1))
    async with provider.open(Requirements(image=image), label) as env:
        running = asyncio.create_task(env.exec(f"sleep 2; echo {index}"))
        await barrier.wait()
        await asyncio.sleep(1)
        seen.append((handles(), threading.active_count()))
        result = await running
        assert result.stdout == f"{index}\\n", result

async def run():
    provider, seen = Docker(DockerParameters()), []
    async with provider.open(
        Requirements(image=image), SandboxLabel(run_id, AttemptKey(task_id="first", index=1))
    ):
        pass
    before = handles()
    barrier = asyncio.Barrier(count)
    await asyncio.gather(*(one(provider, index, barrier, seen) for index in range(count)))
    provider._engine.client().close()  # what is kept for reuse
    print(json.dumps({
        "before": before, "after": handles(),
        "most": max(handle for handle, _ in seen), "threads": max(t for _, t in seen)}))

asyncio.run(run())
"""


def test_64_sandboxes_at_once() -> None:
    run_id, count = f"docker_load_{secrets.token_hex(5)}", 64
    done = subprocess.run(
        [sys.executable, "-W", "error::ResourceWarning", "-c", MANY, run_id, IMAGE, str(count)],
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert done.returncode == 0, done.stderr
    assert "may not be removed" not in done.stderr
    told = json.loads(done.stdout)
    assert told["after"] <= told["before"]
    # guard and command of each, and the connections kept for reuse
    assert told["most"] < told["before"] + 4 * count
    assert told["threads"] < count  # a command that runs needs none
    assert containers_of(run_id) == []


FLOOD = """
import asyncio, json, resource, sys
from agentcompass.components.contracts.attempt import AttemptKey
from agentcompass.components.contracts.requirements import Requirements
from agentcompass.components.contracts.sandbox import CaptureLimits, SandboxLabel
from agentcompass.components.environments.docker import Docker, DockerParameters

def peak_mb():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024

async def run():
    label = SandboxLabel(sys.argv[1], AttemptKey(task_id="flood", index=1))
    async with Docker(DockerParameters()).open(Requirements(image=sys.argv[2]), label) as env:
        await env.exec("true")
        base = peak_mb()
        results = await asyncio.gather(*(env.exec(line) for line in sys.argv[3:]))
        await env.exec("truncate -s 2G huge; echo x > small")
        capture = await env.capture(".", CaptureLimits(max_bytes=1_000_000))
        print(json.dumps({
            "grown_mb": peak_mb() - base,
            "codes": [result.exit_code for result in results],
            "dropped": [max(r.stdout_dropped_bytes, r.stderr_dropped_bytes) for r in results],
            "kept": [max(len(r.stdout), len(r.stderr)) for r in results],
            "captured": [file.path for file in capture.files],
            "left_out": capture.left_out}))

asyncio.run(run())
"""


def test_floods_and_a_huge_file_do_not_fill_memory() -> None:
    size, limit = 200_000_000, 256 * 1024
    lines = [
        f"yes | head -c {size}; exit 3",
        f"head -c {size} /dev/zero | tr '\\0' A",
        f"head -c {size} /dev/zero | tr '\\0' B >&2",
    ]
    run_id = f"docker_load_{secrets.token_hex(5)}"
    done = subprocess.run(
        [sys.executable, "-c", FLOOD, run_id, IMAGE, *lines],
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["grown_mb"] < 60
    assert told["codes"] == [3, 0, 0]
    assert told["dropped"] == [size - limit] * 3
    assert max(told["kept"]) < limit + 100
    assert told["captured"] == ["small"]
    assert told["left_out"] == ["huge: 2147483648 bytes, over the limit of 1000000 bytes in all"]
