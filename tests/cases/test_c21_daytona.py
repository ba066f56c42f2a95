"""C21: a flood of output fills neither our memory nor the sandbox's disk."""

import asyncio
import tracemalloc
from pathlib import Path

from agentcompass.components.contracts.requirements import Requirements
from agentcompass.components.contracts.sandbox import CaptureLimits
from tests.components.environments.daytona_places import daytona, label, standing_in
from tests.standins.daytona_box import needs_sandboxes

_MB = 1024 * 1024


@needs_sandboxes
def test_three_floods_at_once(tmp_path: Path) -> None:
    lines = (
        "yes | head -c 300M; exit 3",
        "head -c 200M /dev/zero | tr '\\0' A; exit 4",
        "yes | head -c 200M >&2; exit 5",
    )

    async def run() -> None:
        async with daytona().open(Requirements(), label()) as env:
            await env.exec("true")
            tracemalloc.start()
            running = [asyncio.create_task(env.exec(line)) for line in lines]
            largest = 0
            while not all(task.done() for task in running):
                used = await env.exec("du -s -k /var/tmp/.agentcompass-*")
                largest = max(largest, int(used.stdout.split()[0]))
                await asyncio.sleep(0.2)
            one, two, three = (task.result() for task in running)
            _, peak = tracemalloc.get_traced_memory()
            tracemalloc.stop()
            assert (one.exit_code, two.exit_code, three.exit_code) == (3, 4, 5)
            assert one.stdout_dropped_bytes > 290 * _MB
            assert two.stdout_dropped_bytes > 190 * _MB
            assert three.stderr_dropped_bytes > 190 * _MB
            assert len(one.stdout) < 300_000
            assert peak < 50 * _MB
            assert largest < 100 * 1024

            await env.exec("mkdir out; truncate -s 2G out/huge; echo 1 > out/small")
            capture = await env.capture("out", CaptureLimits(max_bytes=_MB))
            assert [file.path for file in capture.files] == ["small"]
            assert capture.left_out[0].startswith("huge: 2147483648 bytes, over the limit")

    with standing_in(tmp_path):
        asyncio.run(run())
