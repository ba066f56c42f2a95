"""Small tasks in the Harbor format, made where a test wants them, and a real sandbox for them."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentcompass.components.benchmarks import harbor_tasks, terminal_bench_2
from agentcompass.components.contracts.attempt import AttemptKey, Submission, Verdict
from agentcompass.components.contracts.protocols import Benchmark
from agentcompass.components.contracts.requirements import Requirements
from agentcompass.components.contracts.reward import check_verdict
from agentcompass.components.contracts.run import ExecutionSettings
from agentcompass.components.contracts.sandbox import Environment, SandboxLabel
from agentcompass.components.environments.docker import Docker, DockerParameters
from agentcompass.components.execution.sandbox import AttemptEnvironment
from tests.components.environments.docker_engine import IMAGE
from tests.conformance.benchmark import MemoryDesk

Act = Callable[[Environment], Awaitable[object]]

TASK = f"""\
schema_version = "1.1"
[metadata]
difficulty = "easy"
category = "files"
[agent]
timeout_sec = 60
[verifier]
timeout_sec = 60
[environment]
docker_image = "{IMAGE}"
workdir = "/app"
network_mode = "no-network"
"""
TESTS = """\
#!/bin/bash
if [ "$(cat /app/answer.txt)" = 42 ]; then
    echo ok 1 - the answer
    echo 1 > /logs/verifier/reward.txt
else
    echo not ok 1 - the answer
    echo 0 > /logs/verifier/reward.txt
fi
"""
SOLUTION = "#!/bin/sh\necho 42 > answer.txt\n"


def write_task(
    parent: Path,
    name: str = "answer",
    *,
    toml: str = TASK,
    tests: str = TESTS,
    files: Mapping[str, str] | None = None,
) -> Path:
    """`files`: path in the task's folder → text, over what is there anyway."""
    folder = parent / name
    texts = {
        "task.toml": toml,
        "instruction.md": "Write the answer to /app/answer.txt.\n",
        "tests/test.sh": tests,
        "solution/solve.sh": SOLUTION,
        **(files or {}),
    }
    for path, text in texts.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")
    return folder


def benchmark(folder: Path, *, data_dir: Path | None = None, **parameters: Any) -> Benchmark:
    """harbor_tasks over a folder, loaded."""
    component = harbor_tasks.COMPONENT
    made: Benchmark = component.create(component.parameters(data_path=str(folder), **parameters))
    made.load(data_dir or folder.parent / "data")
    return made


def terminal_bench(folder: Path, **parameters: Any) -> Benchmark:
    component = terminal_bench_2.COMPONENT
    made: Benchmark = component.create(component.parameters(data_path=str(folder), **parameters))
    made.load(folder.parent / "data")
    return made


@dataclass
class Graded:
    verdict: Verdict
    desk: MemoryDesk
    submission: Submission

    @property
    def value(self) -> float:
        verdict = self.verdict
        return float(verdict.correct) if verdict.correct is not None else verdict.score or 0.0

    @property
    def notes(self) -> str:
        return "\n".join(f"{code}: {text}" for code, text in self.desk.notes)

    @property
    def evidence(self) -> str:
        return "\n".join(f"{e.name}: {e.text}" for e in self.verdict.evidence)


def try_task(made: Benchmark, act: Act | str | None = None, seconds: float = 300) -> Graded:
    """Prepare, act (a shell line, or what a function does), collect, grade: in real containers."""
    return try_in_turn(made, [act], seconds)[0]


def try_in_turn(
    made: Benchmark, acts: Sequence[Act | str | None], seconds: float = 300
) -> list[Graded]:
    """Several acts in one container, graded after each. Cheaper than one for each."""
    return asyncio.run(asyncio.wait_for(_try(made, acts), seconds))


async def _try(made: Benchmark, acts: Sequence[Act | str | None]) -> list[Graded]:
    sample = made.load(Path("/nonexistent")).samples[0]
    graded: list[Graded] = []
    async with container(sample.task.requirements) as env:
        await made.prepare(sample.task, env)
        for act in acts:
            await env.enter("run")
            if isinstance(act, str):
                done = await env.exec(act, timeout_seconds=60)
                assert done.ok, (act, done.stdout, done.stderr)
            elif act is not None:
                await act(env)
            desk = MemoryDesk()
            submission = await made.collect(sample.task, env, Submission(), desk)
            if sample.task.verification == "reuse":
                await env.enter("evaluation")
                verdict = await made.verify(sample, submission, env, desk)
                graded.append(Graded(verdict, desk, submission))
                await env.exec("rm -rf /tests; mkdir -p /logs/verifier && rm -rf /logs/verifier/*")
    if sample.task.verification == "fresh":
        assert sample.task.grading is not None
        async with container(sample.task.grading) as env:
            verdict = await made.verify(sample, submission, env, desk)
        graded.append(Graded(verdict, desk, submission))
    for one in graded:
        check_verdict(one.verdict, made.primary, made.score_range)
    return graded


def solve(made: Benchmark) -> Act:
    """What the oracle does."""
    sample = made.load(Path("/nonexistent")).samples[0]

    async def act(env: Environment) -> None:
        solution = made.solution(sample)
        for path, content in solution.files.items():
            await env.write_file(path, content)
        done = await env.exec(solution.command or "true")
        assert done.ok, done.stderr

    return act


@asynccontextmanager
async def container(requirements: Requirements) -> AsyncIterator[Environment]:
    label = SandboxLabel(run_id="test-harbor", attempt=AttemptKey(task_id="harbor", index=1))
    async with Docker(DockerParameters()).open(requirements, label) as env:
        # As the engine hands it out: with the variables of each phase.
        yield AttemptEnvironment(env, ExecutionSettings(), requirements)
