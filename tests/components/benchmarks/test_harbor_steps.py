"""Harbor tasks in steps, through the engine, in real containers."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from agentcompass.components.benchmarks._harbor.judging import Grade, Terms
from agentcompass.components.benchmarks._harbor.rounds import rounds_of
from agentcompass.components.benchmarks._harbor.stepping import rolled_up, shortfall
from agentcompass.components.benchmarks._harbor.task_folder import UnusableTask, read_task
from agentcompass.components.contracts.attempt import AttemptKey, AttemptRecord, Submission
from agentcompass.components.contracts.errors import AgentCompassError, Code
from agentcompass.components.contracts.parameters import BenchmarkParameters
from agentcompass.components.contracts.protocols import Benchmark, Needs
from agentcompass.components.contracts.run import ExecutionSettings
from agentcompass.components.environments.docker import Docker, DockerParameters
from agentcompass.components.environments.host_process import HostProcess, HostProcessParameters
from agentcompass.components.execution.attempt import run_attempt
from agentcompass.components.execution.desk import AttemptDesk
from agentcompass.components.execution.job import Job
from agentcompass.components.execution.parts import Parts
from agentcompass.components.execution.sandbox_preflight import sandbox_problems
from agentcompass.components.harnesses.idle import Idle, IdleParameters
from agentcompass.components.harnesses.oracle import Oracle, OracleParameters
from agentcompass.components.results.paths import RunFolder
from agentcompass.components.results.store import RunStore
from tests.components.benchmarks.harbor_folder import TASK, benchmark, write_task
from tests.components.environments.docker_engine import IMAGE, needs_engine
from tests.components.execution.stages import Directly
from tests.standins.parts import QuietModels

STEPS = """\
[[steps]]
name = "first"
min_reward = 1
[steps.agent]
timeout_sec = 30
[[steps]]
name = "second"
min_reward = {reward = 0.5}
[steps.verifier]
timeout_sec = 30
env = {WANTED = "two"}
[[steps]]
name = "third"
artifacts = ["/app/third.txt"]
[steps.verifier]
environment_mode = "separate"
"""
CHECK = """\
#!/bin/bash
# Written to /logs/verifier/reward.txt by the helper, which comes with the task.
. /tests/helper.sh
check {path} "{text}"
"""
HELPER = """\
check() {
    if [ "$(cat "$1" 2>/dev/null)" = "$2" ]; then echo ok 1 - "$1"; reward=1
    else echo not ok 1 - "$1"; reward=0; fi
    echo $reward > /logs/verifier/reward.txt
}
"""


def three_steps(tmp_path: Path, *, toml: str = TASK + STEPS, **more: str) -> Path:
    files = {"tests/helper.sh": HELPER, **{key.replace("__", "/"): v for key, v in more.items()}}
    for step, text in (("first", "one"), ("second", "$WANTED"), ("third", "three")):
        files |= {
            f"steps/{step}/instruction.md": f"Write the {step} file.\n",
            f"steps/{step}/tests/test.sh": CHECK.format(path=f"/app/{step}.txt", text=text),
        }
    wanted = {"first": "one", "second": "two", "third": "three"}
    for step, text in wanted.items():
        files[f"steps/{step}/solution/solve.sh"] = f"#!/bin/sh\necho {text} > {step}.txt\n"
    files["steps/second/workdir/setup.sh"] = "touch /app/second-was-set-up\n"
    files["steps/second/workdir/given/data.txt"] = "given"
    return write_task(tmp_path, files=files, toml=toml)


class Scripted:
    """A shell line for each step's instruction; keeps what it was told."""

    needs = Needs(sandbox=True, model=False)

    def __init__(self, lines: Mapping[str, str]) -> None:
        self.lines, self.told = lines, list[str]()

    async def run(self, task: Any, env: Any, model: Any, log: Any) -> Submission:
        self.told.append(task.instruction)
        line = next((line for word, line in self.lines.items() if word in task.instruction), "true")
        done = await env.exec(line)
        log.action(f"{line}\n{done.stdout}{done.stderr}")
        assert done.ok, (line, done.stdout, done.stderr)
        return Submission()


@dataclass
class Tried:
    record: AttemptRecord
    folder: Path

    @property
    def value(self) -> float | None:
        return self.record.value

    @property
    def evidence(self) -> str:
        assert self.record.verdict is not None, self.record.failure
        return "\n".join(f"{e.name}: {e.text}" for e in self.record.verdict.evidence)


def run(made: Benchmark, harness: Any, results: Path) -> Tried:
    sample = made.load(Path("/nonexistent")).samples[0]
    made_of = parts_of(made, harness)
    key = AttemptKey(task_id=sample.task.id, index=1)
    job = Job("test-harbor-steps", key, sample, ExecutionSettings())
    desk = AttemptDesk(RunStore(RunFolder(results)), key)
    record = asyncio.run(asyncio.wait_for(run_attempt(job, made_of, desk, Directly()), 500))
    return Tried(record, results)


def parts_of(made: Benchmark, harness: Any) -> Parts:
    return Parts(
        benchmark=made,
        benchmark_parameters=BenchmarkParameters(),
        harness=harness,
        harness_id="test",
        harness_version="1",
        environments=Docker(DockerParameters()),
        model=QuietModels(),  # type: ignore[arg-type]
        secrets=(),
    )


@needs_engine
def test_the_oracle_scores_full_and_the_idle_agent_nothing(tmp_path: Path) -> None:
    made = benchmark(three_steps(tmp_path / "task"))
    solved = run(made, Oracle(OracleParameters()), tmp_path / "oracle")
    assert solved.value == 1.0, (solved.record.failure, solved.record.notes)
    assert solved.record.verdict is not None
    assert solved.record.verdict.metrics == {"steps_graded": 3.0}
    assert solved.record.notes == ()
    idle = run(made, Idle(IdleParameters()), tmp_path / "idle")
    assert idle.value == 0.0, idle.record.failure
    assert "step second: not begun" in idle.evidence


@needs_engine
def test_who_fails_the_first_step_never_sees_the_second(tmp_path: Path) -> None:
    made = benchmark(three_steps(tmp_path / "task"))
    agent = Scripted({"first": "echo wrong > first.txt"})
    tried = run(made, agent, tmp_path / "run")
    assert tried.value == 0.0
    assert agent.told == ["Write the first file.\n"]


@needs_engine
def test_what_stays_between_steps_and_what_does_not(tmp_path: Path) -> None:
    look = (
        "[ -e second-was-set-up ] && [ -e given/data.txt ] || exit 7;"  # the step brought it
        '[ -e conftest.py ] && [ "$(cat kept)" = mine ] || exit 8;'  # the agent's own, untouched
        "kill -0 $(cat service.pid) || exit 9;"  # it listens, so it lives on
        '[ -z "$(ls -A /tests /logs/verifier 2>/dev/null | grep -v :)" ] || exit 10;'
        "echo two > second.txt"
    )
    service = (
        "setsid python3 -m http.server 8124 > /dev/null 2>&1 & echo $! > service.pid; "
        "for n in $(seq 100); do python3 -c 'import socket;"
        'socket.create_connection(("127.0.0.1", 8124))\' 2>/dev/null && break; sleep 0.1; done; '
    )
    made = benchmark(three_steps(tmp_path / "task"))
    agent = Scripted(
        {
            "first": f"{service} touch conftest.py; echo mine > kept; echo one > first.txt",
            "second": look,
            "third": "echo three > third.txt; echo 1 > /logs/verifier/reward.txt",
        }
    )
    tried = run(made, agent, tmp_path / "run")
    assert tried.value == 1.0, (tried.record.failure, tried.record.notes, tried.evidence)
    assert {note.code for note in tried.record.notes} == {Code.GRADER_TAMPERED}  # the conftest.py


@needs_engine
def test_a_shim_planted_in_one_step_does_not_decide_a_later_one(tmp_path: Path) -> None:
    shim = (
        "mkdir -p /usr/local/bin; printf '#!/bin/sh\\necho two\\n' > /usr/local/bin/cat;"
        "chmod +x /usr/local/bin/cat"
    )
    made = benchmark(three_steps(tmp_path / "task"))
    agent = Scripted({"first": f"echo one > first.txt; {shim}"})
    tried = run(made, agent, tmp_path / "run")
    assert tried.value == 0.5, tried.evidence  # first 1, second 0, third not begun
    assert {note.code for note in tried.record.notes} == {Code.GRADER_TAMPERED}
    for step in ("first", "second"):
        assert f"{step}: tampering: cat was hidden" in tried.evidence


@needs_engine
def test_what_a_step_brings_is_not_the_agents(tmp_path: Path) -> None:
    folder = three_steps(tmp_path / "task", steps__third__workdir__keep="")
    (folder / "steps/second/workdir/setup.sh").unlink()
    (folder / "steps/second/workdir/conftest.py").write_text("GIVEN = 1\n")
    look = "test -e /app/conftest.py && check /app/second.txt two\n"
    (folder / "steps/second/tests/test.sh").write_text(f"#!/bin/bash\n. /tests/helper.sh\n{look}")
    made = benchmark(folder)
    tried = run(made, Oracle(OracleParameters()), tmp_path / "given")
    assert (tried.value, tried.record.notes) == (1.0, ())
    agent = Scripted({"second": "echo two > second.txt; echo 'GIVEN = 2' > conftest.py"})
    agent.lines = {"first": "echo one > first.txt", **agent.lines}
    tried = run(made, agent, tmp_path / "changed")
    assert "conftest.py was put back" in tried.evidence
    assert "step second: reward 1" in tried.evidence


@needs_engine
def test_a_step_that_cannot_be_set_up_is_no_zero(tmp_path: Path) -> None:
    folder = three_steps(tmp_path / "task")
    (folder / "steps/second/workdir/setup.sh").write_text("echo no disk >&2; exit 3\n")
    tried = run(benchmark(folder), Oracle(OracleParameters()), tmp_path / "run")
    assert tried.record.failure is not None
    assert tried.record.failure.code is Code.ENVIRONMENT_SETUP
    assert "no disk" in tried.record.failure.message


def test_a_step_has_its_own_limits_and_place_and_the_tasks_sandbox(tmp_path: Path) -> None:
    made = benchmark(three_steps(tmp_path))
    (whole,) = made.load(tmp_path).samples
    first, second, third = made.steps(whole)  # type: ignore[attr-defined]
    assert whole.task.verification == "none"
    assert "[second]\nWrite the second file." in whole.task.instruction
    assert [one.task.instruction for one in (first, second)] == [
        "Write the first file.\n",
        "Write the second file.\n",
    ]
    assert (first.task.run_timeout_seconds, second.task.run_timeout_seconds) == (30, 60)
    assert second.task.evaluation_timeout_seconds == 90
    assert (first.task.verification, third.task.verification) == ("reuse", "fresh")
    assert third.task.grading.image == IMAGE
    assert first.task.requirements == whole.task.requirements


GRADES = (
    Grade(rewards={"reward": 1.0, "style": 0.5}, evidence=()),
    Grade(rewards={"reward": 0.5}, evidence=()),
)


@pytest.mark.parametrize(
    ("strategy", "count", "expected"),
    [
        ("mean", 2, {"reward": 0.75, "style": 0.25}),
        ("mean", 1, {"reward": 1.0, "style": 0.5}),
        ("final", 2, {"reward": 0.5}),
    ],
)
def test_the_roll_up(tmp_path: Path, strategy: str, count: int, expected: dict[str, float]) -> None:
    toml = f'multi_step_reward_strategy = "{strategy}"\n' + TASK + STEPS
    config = read_task(three_steps(tmp_path, toml=toml)).config
    rewards = dict(rolled_up(config, GRADES[:count], Terms()).rewards)
    assert rewards.pop("steps_graded") == count
    assert rewards == expected
    with pytest.raises(AgentCompassError, match="no step gave 'other'"):
        rolled_up(config, GRADES, Terms(key="other"))


def test_a_missing_reward_misses_its_bound(tmp_path: Path) -> None:
    first, second, third = rounds_of(read_task(three_steps(tmp_path)))
    assert shortfall(first, GRADES[1]) == "reward is 0.5, below 1"
    assert shortfall(second, GRADES[1]) == ""
    assert shortfall(second, Grade(rewards={"style": 1.0}, evidence=())) != ""
    assert shortfall(third, Grade(rewards={}, evidence=())) == ""


REFUSED: dict[str, tuple[Callable[[str], str], str]] = {
    "two of a name": (lambda t: t.replace('"second"', '"First"'), "two steps of the same name"),
    "user": (lambda t: t.replace("timeout_sec = 30", 'user = "nobody"', 1), "another user"),
    "network": (
        lambda t: t.replace("[steps.agent]", '[steps.agent]\nnetwork_mode = "public"'),
        "a network of its own",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_steps_cannot_have_here(tmp_path: Path, case: str) -> None:
    change, reason = REFUSED[case]
    folder = three_steps(tmp_path, toml=TASK + change(STEPS))
    (folder / "steps/First").mkdir()
    (folder / "steps/First/instruction.md").write_text("x")
    with pytest.raises(UnusableTask, match=reason):
        rounds_of(read_task(folder))


def test_host_process_is_refused_at_preflight(tmp_path: Path) -> None:
    made = benchmark(three_steps(tmp_path))
    samples: Sequence[Any] = made.load(tmp_path).samples
    made_of = parts_of(made, Idle(IdleParameters()))
    here = replace(made_of, environments=HostProcess(HostProcessParameters()))
    found = asyncio.run(sandbox_problems(here, "host_process", samples))
    assert any("has no images" in line for line in found)
