"""Small real components for tests of the execution: a benchmark, agents, a sandbox, a model."""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agentcompass.components.contracts.attempt import AttemptKey, Submission, Verdict
from agentcompass.components.contracts.parameters import BenchmarkParameters
from agentcompass.components.contracts.protocols import ArtifactDesk, AttemptLog, Needs
from agentcompass.components.contracts.requirements import Requirements
from agentcompass.components.contracts.sandbox import Capabilities, Leftover, SandboxLabel
from agentcompass.components.contracts.task import AnswerKey, Dataset, Sample, Solution, Task
from agentcompass.components.contracts.usage import Usage
from agentcompass.components.execution.parts import Parts


def sample(task_id: str = "t1", category: str | None = None, **task: Any) -> Sample:
    return Sample(
        task=Task(id=task_id, instruction=f"Say yes to {task_id}.", category=category, **task),
        answer_key=AnswerKey(value={"answer": "yes"}),
        content_hash=hashlib.sha256(task_id.encode()).hexdigest(),
    )


class YesBenchmark:
    """Correct is the answer "yes". Hooks let a test misbehave in any phase."""

    primary = "correct"
    score_range = (0.0, 1.0)
    needs_sandbox = False
    prepares_grading = False

    def __init__(self, verification: str = "none", samples: Iterable[Sample] = ()) -> None:
        self.verification = verification
        self.samples = tuple(samples) or (sample(),)
        self.events: list[str] = []
        self.on_prepare: Callable[[], Awaitable[None]] = _nothing
        self.on_verify: Callable[[], Awaitable[Verdict | None]] = _no_verdict

    def load(self, data_dir: Path) -> Dataset:
        return Dataset(samples=self.samples, source="test", content_hash="0")

    async def prepare(self, task: Task, env: Any) -> None:
        self.events.append("prepare")
        await self.on_prepare()

    async def collect(
        self, task: Task, env: Any, submission: Submission, desk: ArtifactDesk
    ) -> Submission:
        self.events.append("collect")
        return submission

    async def verify(
        self, sample: Sample, submission: Submission, env: Any, desk: ArtifactDesk
    ) -> Verdict:
        self.events.append(f"verify in {'no sandbox' if env is None else env.purpose}")
        return await self.on_verify() or Verdict(correct=submission.answer == "yes")

    def solution(self, sample: Sample) -> Solution:
        return Solution(answer="yes")


class Agent:
    """Does what the test's function does."""

    def __init__(
        self, act: Callable[[AttemptLog], Awaitable[Submission]], *, sandbox: bool = True
    ) -> None:
        self.needs = Needs(sandbox=sandbox, model=False)
        self._act = act

    async def run(self, task: Task, env: Any, model: Any, log: AttemptLog) -> Submission:
        return await self._act(log)


@dataclass
class Box:
    purpose: str
    workdir: str = "/box"
    image: str | None = None
    phases: list[str] = field(default_factory=lambda: ["baseline"])

    async def enter(self, phase: str) -> None:
        self.phases.append(phase)


class Boxes:
    """A provider that records what opens and closes."""

    def __init__(self, **capabilities: Any) -> None:
        self.capabilities = Capabilities(isolated=True, **capabilities)
        self.boxes: list[Box] = []
        self.required: list[Requirements] = []
        self.events: list[str] = []
        self.on_open: Callable[[], Awaitable[None]] = _nothing
        self.on_close: Callable[[], Awaitable[None]] = _nothing

    async def preflight(self, requirements: Iterable[Requirements]) -> list[str]:
        return []

    async def leftovers(self) -> tuple[Leftover, ...]:
        return ()

    async def remove_leftover(self, leftover: Leftover) -> bool:
        return True

    @asynccontextmanager
    async def open(self, requirements: Requirements, label: SandboxLabel) -> AsyncIterator[Any]:
        await self.on_open()
        self.events.append(f"open {label.purpose}")
        self.required.append(requirements)
        self.boxes.append(Box(label.purpose, image=requirements.image))
        try:
            yield self.boxes[-1]
        finally:
            self.events.append(f"close {label.purpose}")
            await self.on_close()


@dataclass
class QuietModel:
    name: str = "quiet"
    usage: Usage = Usage()
    model_seconds: float = 0.0
    waiting_seconds: float = 0.0
    pending_seconds: float = 0.0
    prices_known: bool = True


@dataclass
class QuietModels:
    model: QuietModel = field(default_factory=QuietModel)
    prices_known: bool = True

    async def check(self) -> None:
        return None

    def client(self, key: AttemptKey) -> Any:
        return self.model

    async def close(self) -> None:
        return None


def parts(
    act: Callable[[AttemptLog], Awaitable[Submission]], benchmark: YesBenchmark | None = None
) -> Parts:
    return Parts(
        benchmark=benchmark or YesBenchmark(),  # type: ignore[arg-type]
        benchmark_parameters=BenchmarkParameters(),
        harness=Agent(act),  # type: ignore[arg-type]
        harness_id="agent",
        harness_version="1",
        environments=Boxes(),
        model=QuietModels(),
        secrets=(),
    )


async def says_yes(log: AttemptLog) -> Submission:
    return Submission(answer="yes")


async def sleeps_for_ever(log: AttemptLog) -> Submission:
    await asyncio.sleep(3600)
    raise AssertionError("never reached")


async def _nothing() -> None:
    return None


async def _no_verdict() -> Verdict | None:
    return None
