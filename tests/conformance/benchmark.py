"""What every benchmark must do, and the parts to try one without the rest of the program.

A test file makes its benchmark conform with

    class TestQuickstart(BenchmarkConformance):
        component = COMPONENT
        def sandbox(self): return some_environment()   # async context manager
"""

import asyncio
import hashlib
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from agentcompass.components.contracts.attempt import Artifact, Submission, Verdict
from agentcompass.components.contracts.errors import AgentCompassError, Code
from agentcompass.components.contracts.parameters import BenchmarkParameters
from agentcompass.components.contracts.protocols import Benchmark, Component
from agentcompass.components.contracts.reward import check_verdict
from agentcompass.components.contracts.sandbox import Environment
from agentcompass.components.contracts.task import Sample, Solution

OpenSandbox = Callable[[], AbstractAsyncContextManager[Environment]]


@dataclass
class MemoryDesk:
    """An ArtifactDesk that keeps everything in memory."""

    stored: dict[str, bytes] = field(default_factory=dict)
    notes: list[tuple[Code, str]] = field(default_factory=list)

    def save(self, name: str, content: bytes, *, path: str = "", mode: int = 0o644) -> Artifact:
        assert name not in self.stored, name
        self.stored[name] = content
        digest = hashlib.sha256(content).hexdigest()
        return Artifact(name=name, path=path, sha256=digest, size_bytes=len(content), mode=mode)

    def read(self, artifact: Artifact) -> bytes:
        content = self.stored[artifact.name]
        if hashlib.sha256(content).hexdigest() != artifact.sha256:
            raise AgentCompassError(Code.RESULTS_WRITE, f"{artifact.name} changed")
        return content

    def note(self, code: Code, message: str) -> None:
        self.notes.append((code, message))


@dataclass
class Tried:
    """One attempt: what it left, what the grader said, and what stands on the desk."""

    submission: Submission
    verdict: Verdict
    desk: MemoryDesk

    @property
    def value(self) -> float:
        if self.verdict.correct is not None:
            return float(self.verdict.correct)
        assert self.verdict.score is not None
        return self.verdict.score


async def attempt(
    benchmark: Benchmark,
    sample: Sample,
    sandbox: OpenSandbox,
    act: Callable[[Environment], Any] | None = None,
    answer: str | None = None,
) -> Tried:
    """Prepare, let `act` work in the sandbox, collect, and judge as the verification mode says."""
    desk, submission = MemoryDesk(), Submission(answer=answer)
    if benchmark.needs_sandbox or act is not None:
        async with sandbox() as env:
            await benchmark.prepare(sample.task, env)
            if act is not None:
                await act(env)
            submission = await benchmark.collect(sample.task, env, submission, desk)
            if benchmark.verification == "reuse":
                return Tried(
                    submission, await benchmark.verify(sample, submission, env, desk), desk
                )
    else:
        submission = await benchmark.collect(sample.task, None, submission, desk)
    return Tried(submission, await judge(benchmark, sample, sandbox, submission, desk), desk)


async def judge(
    benchmark: Benchmark,
    sample: Sample,
    sandbox: OpenSandbox,
    submission: Submission,
    desk: MemoryDesk,
) -> Verdict:
    """Judge a submission in a sandbox of its own, as a resumed run would."""
    if benchmark.verification == "none":
        verdict = await benchmark.verify(sample, submission, None, desk)
    else:
        async with sandbox() as env:
            verdict = await benchmark.verify(sample, submission, env, desk)
    check_verdict(verdict, benchmark.primary, benchmark.score_range)
    return verdict


async def play(
    benchmark: Benchmark, sample: Sample, solution: Solution, sandbox: OpenSandbox
) -> Tried:
    """What the oracle does: write the files, run the command, give the answer."""

    async def act(env: Environment) -> None:
        for path, content in solution.files.items():
            await env.write_file(path, content)
        if solution.command is not None:
            result = await env.exec(solution.command)
            assert result.ok, result.stderr

    working = act if solution.files or solution.command else None
    return await attempt(benchmark, sample, sandbox, working, solution.answer)


class BenchmarkConformance:
    """Subclass with a `component`; the tests run on every sample that `samples` returns."""

    component: Component
    parameters: dict[str, Any] = {}

    def sandbox(self) -> AbstractAsyncContextManager[Environment]:
        raise NotImplementedError

    def loaded(self, data_dir: Path) -> tuple[Benchmark, Sequence[Sample]]:
        benchmark = self.component.create(self.component.parameters(**self.parameters))
        return benchmark, benchmark.load(data_dir).samples

    def test_the_parameters_extend_those_of_every_benchmark(self) -> None:
        assert issubclass(self.component.parameters, BenchmarkParameters)
        for name, field_ in self.component.parameters.model_fields.items():
            assert field_.description, f"{name} is not documented"

    def test_the_attributes_say_how_it_is_judged(self, tmp_path: Path) -> None:
        benchmark, _ = self.loaded(tmp_path)
        assert benchmark.primary in ("correct", "score")
        assert benchmark.score_range[0] < benchmark.score_range[1]
        assert benchmark.verification in ("none", "reuse", "fresh")
        assert isinstance(benchmark.needs_sandbox, bool)
        assert isinstance(benchmark.prepares_grading, bool)

    def test_ids_are_unique_and_loading_twice_gives_the_same(self, tmp_path: Path) -> None:
        _, first = self.loaded(tmp_path)
        _, second = self.loaded(tmp_path)
        assert first
        assert len({sample.task.id for sample in first}) == len(first)
        assert [s.model_dump() for s in first] == [s.model_dump() for s in second]

    def test_hashes_tell_tasks_apart(self, tmp_path: Path) -> None:
        _, samples = self.loaded(tmp_path)
        assert len({sample.content_hash for sample in samples}) == len(samples)
        assert all(len(sample.content_hash) == 64 for sample in samples)

    def test_no_part_of_the_key_is_in_the_task(self, tmp_path: Path) -> None:
        benchmark, samples = self.loaded(tmp_path)
        for sample in samples:
            shown = sample.task.model_dump_json()
            for secret in self.secrets(benchmark, sample):
                assert secret.strip(), sample.task.id
                assert secret not in shown, (sample.task.id, secret)

    def secrets(self, benchmark: Benchmark, sample: Sample) -> Sequence[str]:
        """Texts that give the answer away; by default the whole solution."""
        solution = benchmark.solution(sample)
        return [solution.answer] if solution.answer else []

    def test_the_solution_scores_full_twice(self, tmp_path: Path) -> None:
        benchmark, samples = self.loaded(tmp_path)

        async def check(sample: Sample) -> None:
            tried = await play(benchmark, sample, benchmark.solution(sample), self.sandbox)
            assert tried.value == benchmark.score_range[1], (sample.task.id, tried.verdict)
            again = await judge(benchmark, sample, self.sandbox, tried.submission, tried.desk)
            assert again == tried.verdict, sample.task.id

        asyncio.run(_each(samples, check))

    def test_doing_nothing_scores_zero_and_says_so(self, tmp_path: Path) -> None:
        benchmark, samples = self.loaded(tmp_path)

        async def check(sample: Sample) -> None:
            tried = await attempt(benchmark, sample, self.sandbox)
            assert tried.value == benchmark.score_range[0], (sample.task.id, tried.verdict)
            assert Code.SUBMISSION_EMPTY in [note.code for note in tried.verdict.notes]

        asyncio.run(_each(samples, check))

    def test_babble_scores_zero(self, tmp_path: Path) -> None:
        benchmark, samples = self.loaded(tmp_path)

        async def check(sample: Sample) -> None:
            tried = await attempt(benchmark, sample, self.sandbox, answer="I have done it all.")
            assert tried.value == benchmark.score_range[0], (sample.task.id, tried.verdict)

        asyncio.run(_each(samples, check))


async def _each(samples: Sequence[Sample], check: Callable[[Sample], Any]) -> None:
    """A few at a time; every failure is reported with its task."""
    gate = asyncio.Semaphore(4)

    async def gated(sample: Sample) -> None:
        async with gate:
            await check(sample)

    outcomes = await asyncio.gather(*map(gated, samples), return_exceptions=True)
    problems = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
    if problems:
        pytest.fail("\n".join(f"{type(p).__name__}: {p}" for p in problems))
