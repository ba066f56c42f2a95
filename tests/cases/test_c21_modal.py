"""C21: floods and a huge file cost the client no memory, and what was cut is told."""

import os
import subprocess
import sys
from pathlib import Path

from tests.components.environments.modal_sandboxes import needs_sandboxes, standin
from tests.standins.modal_server import ModalStandin

__all__ = ["standin"]
pytestmark = needs_sandboxes

ROOT = Path(__file__).parents[2]
CLIENT = """
import asyncio, resource
from agentcompass.components.contracts.sandbox import CaptureLimits
from tests.components.environments.modal_sandboxes import inside

SIZE = 30_000_000
LINES = {
    3: f"yes | head -c {SIZE}; exit 3",
    0: f"head -c {SIZE} /dev/zero | tr '\\\\0' A",
    5: f"head -c {SIZE} /dev/zero | tr '\\\\0' B >&2; exit 5",
}

def peak_mb():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024

async def scenario(env):
    await env.exec("true")
    before = peak_mb()
    results = await asyncio.gather(*(env.exec(line) for line in LINES.values()))
    for code, result in zip(LINES, results):
        assert result.exit_code == code
        dropped = result.stdout_dropped_bytes + result.stderr_dropped_bytes
        text = result.stdout + result.stderr
        assert f"[… {dropped} bytes dropped …]" in text
        assert len(text) < 300_000
    await env.exec("mkdir out; truncate -s 2G out/huge; echo k > out/kept")
    captured = await env.capture("out", CaptureLimits(max_bytes=8_000_000))
    assert [file.path for file in captured.files] == ["kept"]
    assert captured.left_out[0].startswith("huge: 2147483648 bytes")
    try:
        await env.read_file("out/huge", max_bytes=1_000_000)
    except ValueError:
        pass
    else:
        raise AssertionError
    print("more:", peak_mb() - before)

inside(scenario)
"""


def test_three_floods_and_a_huge_file(standin: ModalStandin) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", CLIENT],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert ran.returncode == 0, ran.stderr
    assert float(ran.stdout.split("more:")[1]) < 100
