"""What our docker sandbox costs over the bare SDK: wall time and this process's CPU time.

    python bench/docker_overhead.py [--image local/base:latest] [--count 64] [--concurrency 16]

Each job makes a container, runs three commands in it and removes it. `bare` does so with the SDK
and one thread for each job; `ours` opens, executes and closes. They take turns; the medians of the
rounds are compared. Goals: wall at most 1.3 times, CPU at most 1.5 times.
"""

import argparse
import asyncio
import statistics
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import docker

from agentcompass.components.contracts.attempt import AttemptKey
from agentcompass.components.contracts.requirements import Requirements
from agentcompass.components.contracts.sandbox import SandboxLabel
from agentcompass.components.environments.docker import Docker, DockerParameters

COMMANDS = ("echo hello", "ls -la /", "head -c 10000 /dev/zero | tr '\\0' x")
GOALS = {"wall": 1.3, "cpu": 1.5}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--image", default="local/base:latest")
    parser.add_argument("--count", type=int, default=64, help="containers in a round")
    parser.add_argument("--concurrency", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    ways = {"bare": bare, "ours": ours}
    for way in ways.values():
        way(options.image, 2, 2)  # imports and connections
    took: dict[str, dict[str, list[float]]] = {name: {"wall": [], "cpu": []} for name in ways}
    for _ in range(options.rounds):
        for name, way in ways.items():
            wall, cpu = timed(
                lambda way=way: way(options.image, options.count, options.concurrency)
            )
            took[name]["wall"].append(wall)
            took[name]["cpu"].append(cpu)
    return report(took, options.count)


def bare(image: str, count: int, concurrency: int) -> None:
    api = docker.from_env(max_pool_size=concurrency, timeout=120).api

    def job(_: int) -> None:
        host_config = api.create_host_config(auto_remove=True)
        container = api.create_container(image, ["sleep", "600"], host_config=host_config)["Id"]
        api.start(container)
        for command in COMMANDS:
            made = api.exec_create(container, ["sh", "-c", command])["Id"]
            api.exec_start(made, demux=True)
            assert api.exec_inspect(made)["ExitCode"] == 0
        api.remove_container(container, force=True, v=True)

    with ThreadPoolExecutor(concurrency) as threads:
        list(threads.map(job, range(count)))
    api.close()


def ours(image: str, count: int, concurrency: int) -> None:
    async def run() -> None:
        provider, turns = Docker(DockerParameters()), asyncio.Semaphore(concurrency)

        async def job(number: int) -> None:
            label = SandboxLabel("bench", AttemptKey(task_id=f"task {number}", index=1))
            async with turns, provider.open(Requirements(image=image), label) as env:
                for command in COMMANDS:
                    assert (await env.exec(command)).ok

        await asyncio.gather(*(job(number) for number in range(count)))

    asyncio.run(run())


def timed(work: Callable[[], None]) -> tuple[float, float]:
    wall, cpu = time.monotonic(), time.process_time()
    work()
    return time.monotonic() - wall, time.process_time() - cpu


def report(took: dict[str, dict[str, list[float]]], count: int) -> int:
    print(f"{'per container':14} {'bare':>10} {'ours':>10} {'ratio':>7} {'goal':>6}")
    missed = 0
    for kind, goal in GOALS.items():
        bare_, ours_ = (statistics.median(took[name][kind]) for name in ("bare", "ours"))
        ratio = ours_ / bare_
        missed += ratio > goal
        cells = (f"{1000 * seconds / count:7.0f} ms" for seconds in (bare_, ours_))
        print(f"{kind:14} {' '.join(cells)} {ratio:7.2f} {goal:6.1f}")
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
