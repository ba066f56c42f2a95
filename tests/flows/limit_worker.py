"""A process that uses shared limits as a run does; told and watched from outside.

    python limit_worker.py slots PROVIDER LIMIT|none WANTED ATTEMPTS SECONDS LOG
    python limit_worker.py pace PROVIDER QPS OPENINGS LOG

Writes a line `seconds begin|end` for each attempt (a process of its own, `sleep`), `seconds turn`
for each opening; the seconds are of the machine's monotonic clock, one for all processes.
"""

import asyncio
import os
import sys
import time
from pathlib import Path
from typing import TextIO

from agentcompass.flows import local


def main() -> None:
    kind, provider, *words = sys.argv[1:]
    local.connect(lambda line: print(line, file=sys.stderr))
    with Path(words[-1]).open("w", buffering=1) as log:
        if kind == "slots":
            limit, wanted, attempts, seconds = words[:4]
            asyncio.run(
                use_slots(
                    provider,
                    None if limit == "none" else int(limit),
                    int(wanted),
                    int(attempts),
                    float(seconds),
                    log,
                )
            )
        else:
            asyncio.run(open_paced(provider, float(words[0]), int(words[1]), log))


async def use_slots(
    provider: str, limit: int | None, wanted: int, attempts: int, seconds: float, log: TextIO
) -> None:
    from agentcompass.flows.slots import ProviderSlots

    todo, left = iter(range(attempts)), attempts
    async with ProviderSlots(provider, limit, min(wanted, attempts)) as slots:
        tell(log, "ready")

        async def worker() -> None:
            nonlocal left
            for _ in todo:
                async with slots.held():
                    tell(log, "begin")
                    attempt = await asyncio.create_subprocess_exec("sleep", str(seconds))
                    try:
                        await attempt.wait()
                    finally:
                        tell(log, "end")
                left -= 1
                slots.needs(left)

        await asyncio.gather(*(worker() for _ in range(wanted)))
    tell(log, "closed")


async def open_paced(provider: str, qps: float, openings: int, log: TextIO) -> None:
    from agentcompass.flows.pacing import OpeningPace

    async with OpeningPace(provider, qps) as pace:
        tell(log, "ready")

        async def open_one() -> None:
            await pace.turn()
            tell(log, "turn")

        await asyncio.gather(*(open_one() for _ in range(openings)))


def tell(log: TextIO, word: str) -> None:
    log.write(f"{time.monotonic():.4f} {word}\n")


if __name__ == "__main__":
    if os.environ.get("AGENTCOMPASS_WORKER_LOG"):
        import logging

        logging.basicConfig(level=os.environ["AGENTCOMPASS_WORKER_LOG"])
    main()
