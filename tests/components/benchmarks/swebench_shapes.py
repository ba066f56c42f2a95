"""The SWE-bench benchmark on our own small repository, and ways to work on it."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from agentcompass.components.benchmarks._swebench import SWEBench
from agentcompass.components.benchmarks.swebench_verified import COMPONENT
from agentcompass.components.contracts.errors import Code
from agentcompass.components.contracts.sandbox import Environment
from tests.components.benchmarks.sandboxes import sandbox
from tests.components.benchmarks.swebench_repository import make_data
from tests.conformance.benchmark import OpenSandbox, Tried, attempt

FIX = "sed -i 's/width + height/width * height/' shapes/__init__.py\n"
"""The shell command of an agent that solves the task."""


class Shapes:
    """The benchmark with its one task."""

    def __init__(
        self,
        folder: Path,
        *,
        columns: dict[str, Any] | None = None,
        files: dict[str, Any] | None = None,
        **parameters: Any,
    ) -> None:
        self.folder = folder
        self.data = make_data(folder / "data", files or {}, **(columns or {}))
        given = {**self.data, **parameters}
        self.benchmark: SWEBench = COMPONENT.create(COMPONENT.parameters(**given))
        self.data_dir = folder / "kept"
        [self.sample] = self.benchmark.load(self.data_dir).samples
        [self.instance] = self.benchmark._instances.values()

    def worked(
        self, act: str | Callable[[Environment], Awaitable[None]], open_: OpenSandbox = sandbox
    ) -> Tried:
        """What an agent left that ran this command, and how it was judged."""

        async def run(env: Environment) -> None:
            assert isinstance(act, str)
            result = await env.exec(act)
            assert result.ok, result.stderr

        working = run if isinstance(act, str) else act
        return asyncio.run(attempt(self.benchmark, self.sample, open_, working))


def tampering(tried: Tried) -> list[str]:
    return [n.message for n in tried.verdict.notes if n.code is Code.GRADER_TAMPERED]


def shown(tried: Tried) -> str:
    return json.dumps([item.model_dump() for item in tried.verdict.evidence], indent=1)
