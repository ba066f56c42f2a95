"""C56: what the grader lacks is the grader's failure, never a 0."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from agentcompass.components.benchmarks._swebench import starving, test_run
from agentcompass.components.benchmarks._swebench.snapshot import apply_patch
from agentcompass.components.contracts.attempt import Submission, Verdict
from agentcompass.components.contracts.errors import AgentCompassError, Code
from agentcompass.components.contracts.sandbox import Environment, ExecResult
from tests.components.benchmarks.sandboxes import path_with, sandbox
from tests.components.benchmarks.swebench_repository import diff
from tests.components.benchmarks.swebench_shapes import FIX, Shapes, shown
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


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("pytest -rA tests", Code.GRADER_SETUP),  # seen before anything of the submission is there
        ("runner-of-nowhere tests", Code.GRADER_CRASHED),
    ],
)
def test_a_missing_runner_is_no_score(tmp_path: Path, command: str, code: Code) -> None:
    shapes = Shapes(tmp_path, test_command=command)
    empty = path_with(tmp_path / "programs", *PROGRAMS, "python3")
    with pytest.raises(AgentCompassError) as raised:
        shapes.worked(FIX, lambda: sandbox(empty))
    assert raised.value.code is code


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


ENDLESS = {
    "waits": "printf 'import time\\ntime.sleep(600)\\n' >>shapes/__init__.py",
    "stays after its tests": f"{FIX} cat >>shapes/__init__.py <<'END'\n"
    "import atexit, time\natexit.register(time.sleep, 600)\nEND\n",
}


@pytest.mark.parametrize("way", ENDLESS)
def test_a_submission_that_does_not_end_is_not_resolved(tmp_path: Path, way: str) -> None:
    tried = Shapes(tmp_path, test_timeout_seconds=6).worked(ENDLESS[way])
    assert tried.verdict.correct is False
    assert "did not end within 6 s" in shown(tried)


def test_tests_that_hardly_got_a_processor_are_the_graders_time_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = starving.__file__
    busy = tmp_path / "starving.py"
    always = "\n\ndef lost_seconds(root, elapsed_seconds):\n    return 1e9\n"
    busy.write_text(Path(real).read_text() + always)
    read = test_run._source
    monkeypatch.setattr(
        test_run, "_source", lambda name: busy.read_text() if name == busy.stem else read(name)
    )
    shapes = Shapes(tmp_path / "shapes", test_timeout_seconds=3)
    with pytest.raises(AgentCompassError, match="machine is too busy") as raised:
        shapes.worked(ENDLESS["waits"])
    assert raised.value.code is Code.GRADER_TIMEOUT


@pytest.mark.parametrize(
    ("result", "code"),
    [
        (
            ExecResult(1, "", "error: unable to write file 'a.py': No space left on device\n"),
            Code.ENVIRONMENT_DISK_FULL,
        ),
        (ExecResult(None, "", "", timed_out=True), Code.GRADER_CRASHED),
        (ExecResult(137, "", "Killed", out_of_memory=True), Code.GRADER_CRASHED),
        (
            ExecResult(
                128, "", "fatal: unable to create threads: Resource temporarily unavailable"
            ),
            Code.GRADER_CRASHED,
        ),
        (
            ExecResult(1, "", "error: unable to read b.py: Input/output error\n"),
            Code.GRADER_CRASHED,
        ),
    ],
)
def test_trouble_while_applying_is_not_the_patchs(result: ExecResult, code: Code) -> None:
    with pytest.raises(AgentCompassError) as raised:
        asyncio.run(apply_patch(_Applying(result), b"x"))  # type: ignore[arg-type]
    assert raised.value.code is code


def test_a_patch_for_other_files_is_refused(tmp_path: Path) -> None:
    """With the words of the git that is here."""
    patches = {
        "does not apply": diff("shapes/__init__.py", "a\n", "b\n"),
        "No such file": diff("shapes/none.py", "a\n", "b\n"),
        "already exists": "diff --git a/README.md b/README.md\nnew file mode 100644\n"
        "--- /dev/null\n+++ b/README.md\n@@ -0,0 +1 @@\n+a\n",
    }

    async def run() -> None:
        shapes = Shapes(tmp_path)
        async with sandbox() as env:
            await shapes.benchmark.prepare(shapes.sample.task, env)
            for said, patch in patches.items():
                assert said in await apply_patch(env, patch.encode())

    asyncio.run(run())


def test_waiting_for_a_processor_is_told_from_waiting_for_nothing() -> None:
    """One process is kept off the only processor it may use by another; one just sleeps."""
    [processor] = list(os.sched_getaffinity(0))[:1]
    spin = [sys.executable, "-c", "while True: pass"]
    parent = "import subprocess, sys; subprocess.Popen(sys.argv[1:]).wait()"
    pinned = partial(os.sched_setaffinity, 0, {processor})
    started: list[subprocess.Popen[bytes]] = []

    def start(words: list[str], before: Callable[[], object]) -> subprocess.Popen[bytes]:
        started.append(subprocess.Popen(words, preexec_fn=before, start_new_session=True))
        return started[-1]

    try:
        start(spin, pinned)
        kept_off = start([sys.executable, "-c", parent, "nice", "-n", "19", *spin], pinned)
        asleep = start([sys.executable, "-c", parent, "sleep", "600"], pinned)
        began = time.monotonic()

        def lost(process: subprocess.Popen[bytes]) -> float:
            return starving.lost_seconds(process.pid, time.monotonic() - began)

        while lost(kept_off) < lost(asleep) + 2:
            assert time.monotonic() < began + 60
            time.sleep(0.2)
    finally:
        for process in started:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _installed_by(folder: Path, *, lost: Path) -> Shapes:
    """A repository with an installation that needs what `lost` stands for the lack of."""
    return Shapes(
        folder,
        files={"install.py": "print('installed')\n"},
        setup_commands=(f"test ! -e {lost}", "python3 install.py"),
    )


def _graded(shapes: Shapes, work: str, on_evaluation: Callable[[], object]) -> Verdict:
    async def run() -> Verdict:
        desk = MemoryDesk()
        async with sandbox() as env:
            await shapes.benchmark.prepare(shapes.sample.task, env)
            await env.exec(work)
            submission = await shapes.benchmark.collect(shapes.sample.task, env, Submission(), desk)
        async with sandbox() as env:
            watched = _Watched(env, [], on_evaluation)
            return await shapes.benchmark.verify(shapes.sample, submission, watched, desk)

    return asyncio.run(run())


def test_an_installation_that_needs_the_network_is_no_zero(tmp_path: Path) -> None:
    lost = tmp_path / "lost"
    with pytest.raises(AgentCompassError, match="does it need a network") as raised:
        _graded(_installed_by(tmp_path / "shapes", lost=lost), "echo >>README.md", lost.touch)
    assert raised.value.code is Code.GRADER_SETUP


def test_an_installation_that_the_submission_broke_is_its_own(tmp_path: Path) -> None:
    shapes = _installed_by(tmp_path / "shapes", lost=tmp_path / "lost")
    broken = "echo 'raise SystemExit(7)' >install.py\n"
    for work, resolved in ((broken, False), (broken + FIX, True)):
        verdict = _graded(shapes, work, lambda: None)
        assert verdict.correct is resolved
        assert ["exit 7" in e.text for e in verdict.evidence if e.name == "install"] == [True]


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


class _Applying:
    """An environment in which `git apply` ends so."""

    workdir = "/"

    def __init__(self, result: ExecResult) -> None:
        self._result = result

    async def write_file(self, *words: object) -> None:
        pass

    async def exec(self, command: list[str], **options: object) -> ExecResult:
        return ExecResult(0, "", "") if command[0] == "rm" else self._result


class _Watched:
    """An environment that remembers what it was asked for."""

    def __init__(
        self,
        inner: Environment,
        seen: list[str],
        on_evaluation: Callable[[], object] = lambda: None,
    ) -> None:
        self._inner, self._seen, self._on_evaluation = inner, seen, on_evaluation
        self.workdir = inner.workdir

    def __getattr__(self, name: str) -> object:
        return getattr(self._inner, name)

    async def enter(self, phase: str) -> None:
        self._seen.append(f"enter {phase}")
        self._on_evaluation()

    async def exec(self, command: object, **options: object) -> object:
        self._seen.append(str(command))
        return await self._inner.exec(command, **options)  # type: ignore[arg-type]
