"""C56: what the grader lacks is the grader's failure, never a 0."""

import asyncio
from pathlib import Path

import pytest

from agentcompass.components.contracts.attempt import Submission
from agentcompass.components.contracts.errors import AgentCompassError, Code
from agentcompass.components.contracts.sandbox import Environment
from tests.components.benchmarks.sandboxes import path_with, sandbox
from tests.components.benchmarks.swebench_shapes import FIX, Shapes
from tests.conformance.benchmark import MemoryDesk, Tried, judge

PROGRAMS = (
    "sh",
    "bash",
    "git",
    "rm",
    "sed",
    "grep",
    "cat",
    "mkdir",
    "find",
    "sort",
    "wc",
    "cut",
    "xargs",
    "head",
    "cp",
    "mv",
    "test",
    "true",
    "env",
    "chmod",
    "tar",
)


def _judged_with(shapes: Shapes, tried: Tried, variables: dict[str, str]) -> None:
    asyncio.run(
        judge(
            shapes.benchmark,
            shapes.sample,
            lambda: sandbox(variables),
            tried.submission,
            tried.desk,
        )
    )


@pytest.mark.parametrize("command", ["pytest -rA tests", "runner-of-nowhere tests"])
def test_a_missing_runner_is_no_score(tmp_path: Path, command: str) -> None:
    shapes = Shapes(tmp_path, test_command=command)
    empty = path_with(tmp_path / "programs", *PROGRAMS, "python3")
    with pytest.raises(AgentCompassError) as raised:
        shapes.worked(FIX, lambda: sandbox(empty))
    assert raised.value.code is Code.GRADER_CRASHED


def test_a_missing_program_is_no_score(tmp_path: Path) -> None:
    shapes = Shapes(tmp_path / "shapes")
    tried = shapes.worked(FIX)
    assert tried.verdict.correct is True
    programs = path_with(tmp_path / "few", *PROGRAMS)
    with pytest.raises(AgentCompassError, match="python3 is missing") as raised:
        _judged_with(shapes, tried, programs)
    assert raised.value.code is Code.GRADER_CRASHED
    (tmp_path / "few/git").unlink()
    with pytest.raises(AgentCompassError, match="git"):
        _judged_with(shapes, tried, programs)


def test_a_set_up_step_that_cannot_download_is_no_score(tmp_path: Path) -> None:
    shapes = Shapes(tmp_path, setup_commands=("echo 'ERROR: no route to host' >&2; exit 1",))
    with pytest.raises(AgentCompassError, match="no route to host") as raised:
        shapes.worked(FIX)
    assert raised.value.code is Code.ENVIRONMENT_SETUP


def test_tests_that_do_not_end_are_the_graders_time_out(tmp_path: Path) -> None:
    shapes = Shapes(tmp_path, test_timeout_seconds=3)
    with pytest.raises(AgentCompassError) as raised:
        shapes.worked("printf 'import time\\ntime.sleep(600)\\n' >>shapes/__init__.py")
    assert raised.value.code is Code.GRADER_TIMEOUT


def test_the_submission_meets_the_evaluation_phase_only(tmp_path: Path) -> None:
    shapes = Shapes(tmp_path, setup_commands=("echo $PHASE >>../phases",))
    phases: list[str] = []

    async def run() -> None:
        async with sandbox() as env:
            await shapes.benchmark.prepare(shapes.sample.task, env)
            await env.exec(FIX)
            desk = MemoryDesk()
            submission = await shapes.benchmark.collect(shapes.sample.task, env, Submission(), desk)
        async with sandbox() as env:
            commands = _Watched(env, phases)
            await shapes.benchmark.verify(shapes.sample, submission, commands, desk)

    asyncio.run(run())
    entered = phases.index("enter evaluation")
    assert any("fast-import" in p or "index-pack" in p for p in phases[:entered])
    assert not any("index-pack" in p for p in phases[entered:])
    assert any("LOADER" in p or "types" in p for p in phases[entered:])


class _Watched:
    """An environment that remembers what it was asked for."""

    def __init__(self, inner: Environment, seen: list[str]) -> None:
        self._inner, self._seen = inner, seen

    def __getattr__(self, name: str) -> object:
        return getattr(self._inner, name)

    async def enter(self, phase: str) -> None:
        self._seen.append(f"enter {phase}")

    async def exec(self, command: object, **options: object) -> object:
        self._seen.append(str(command))
        return await self._inner.exec(command, **options)  # type: ignore[arg-type]
