"""Tasks in steps: one call of the agent each, judged in between, in one sandbox."""

import asyncio
from pathlib import Path
from typing import Any

from agentcompass.components.contracts.attempt import AttemptKey, AttemptRecord, Submission, Verdict
from agentcompass.components.contracts.errors import AgentCompassError, Code, Phase
from agentcompass.components.contracts.protocols import ArtifactDesk
from agentcompass.components.contracts.requirements import Requirements
from agentcompass.components.contracts.run import ExecutionSettings
from agentcompass.components.contracts.task import Sample
from agentcompass.components.execution.attempt import run_attempt
from agentcompass.components.execution.desk import AttemptDesk
from agentcompass.components.execution.job import Job
from agentcompass.components.execution.parts import Parts
from agentcompass.components.execution.sandbox_preflight import sandbox_problems
from agentcompass.components.results.paths import RunFolder
from agentcompass.components.results.store import RunStore
from tests.components.execution.stages import Directly
from tests.standins.parts import YesBenchmark, parts, sample

KEY = AttemptKey(task_id="t1", index=1)


class CountBenchmark(YesBenchmark):
    """Steps ask for "1", "2", "3"; the share of right ones is the score. A wrong one ends it."""

    primary = "score"
    needs_sandbox = True

    def __init__(self, *places: str, **step: Any) -> None:
        super().__init__("none")
        self.places = places or ("reuse",) * 3
        self.step = step

    def steps(self, whole: Sample) -> tuple[Sample, ...]:
        return tuple(
            sample(f"{whole.task.id}/{number}", verification=place, **self.step)
            for number, place in enumerate(self.places, 1)
        )

    async def begin_step(self, step: Sample, env: Any) -> None:
        self.events.append(f"begin {step.task.id[-1]} in {env.purpose}: {env.phases[-1]}")

    async def end_step(
        self, step: Sample, submission: Submission, env: Any, desk: ArtifactDesk
    ) -> tuple[Submission, bool]:
        number = step.task.id[-1]
        where = "no sandbox" if env is None else f"{env.purpose}: {env.phases[-1]}"
        self.events.append(f"end {number} in {where}")
        right = submission.answer == number
        kept = desk.save(f"steps/{number}", b"1" if right else b"0")
        artifacts = (*submission.artifacts, kept)
        return submission.model_copy(update={"artifacts": artifacts}), right

    async def verify(
        self, sample: Sample, submission: Submission, env: Any, desk: ArtifactDesk
    ) -> Verdict:
        assert env is None
        rewards = [float(desk.read(artifact)) for artifact in submission.artifacts]
        return Verdict(score=sum(rewards) / len(self.places))


class Counter:
    """Answers its own call's number, or what the test says."""

    def __init__(self, **answers: str) -> None:
        self.calls = 0
        self.answers = answers

    async def __call__(self, log: Any) -> Submission:
        self.calls += 1
        log.user(f"step {self.calls}")
        answer = self.answers.get(f"at{self.calls}", str(self.calls))
        if answer == "never":
            await asyncio.sleep(3600)
        if answer == "crash":
            raise ZeroDivisionError("by its own fault")
        return Submission(answer=answer)


def attempt(
    tmp_path: Path, made_of: Parts, checkpoint: Any = None, **settings: Any
) -> AttemptRecord:
    store = RunStore(RunFolder(tmp_path))
    job = Job("run", KEY, sample(), ExecutionSettings(**settings))
    return asyncio.run(run_attempt(job, made_of, AttemptDesk(store, KEY, checkpoint), Directly()))


def made(agent: Counter, benchmark: YesBenchmark) -> tuple[Parts, list[str], Any]:
    made_of = parts(agent, benchmark)
    return made_of, benchmark.events, made_of.environments


def test_every_step_in_the_same_sandbox_each_in_its_phase(tmp_path: Path) -> None:
    agent = Counter()
    made_of, events, boxes = made(agent, CountBenchmark())
    record = attempt(tmp_path, made_of)
    assert (record.value, agent.calls) == (1.0, 3)
    assert boxes.events == ["open run", "close run"]
    assert events == ["prepare"] + [
        line
        for number in "123"
        for line in (
            f"begin {number} in run: baseline",
            "collect",
            f"end {number} in run: evaluation",
        )
    ]
    assert boxes.boxes[0].phases == ["baseline"] + ["baseline", "run", "evaluation"] * 3


def test_one_trajectory_with_every_steps_instruction(tmp_path: Path) -> None:
    made_of, _, _ = made(Counter(), CountBenchmark())
    attempt(tmp_path, made_of)
    trajectory = RunStore(RunFolder(tmp_path)).read_trajectory(KEY)
    assert trajectory is not None
    assert [step.message for step in trajectory.steps] == ["step 1", "step 2", "step 3"]


def test_a_step_that_misses_is_the_last(tmp_path: Path) -> None:
    agent = Counter(at2="nonsense")
    made_of, events, _ = made(agent, CountBenchmark())
    record = attempt(tmp_path, made_of)
    assert (record.status, agent.calls) == ("scored", 2)
    assert abs((record.value or 0) - 1 / 3) < 1e-9
    assert not any("3" in event for event in events)


def test_each_step_is_judged_where_it_says(tmp_path: Path) -> None:
    own = Requirements(image="grader")
    made_of, events, boxes = made(Counter(), CountBenchmark("none", "fresh", "reuse", grading=own))
    assert attempt(tmp_path, made_of).value == 1.0
    assert [event for event in events if event.startswith("end")] == [
        "end 1 in no sandbox",
        "end 2 in grade: evaluation",
        "end 3 in run: evaluation",
    ]
    assert boxes.events == ["open run", "open grade", "close grade", "close run"]
    assert [required.image for required in boxes.required] == [None, "grader"]


def test_each_step_has_its_own_time_and_a_late_one_is_judged(tmp_path: Path) -> None:
    benchmark = CountBenchmark(run_timeout_seconds=1.0)
    made_of, _, _ = made(Counter(at3="never"), benchmark)
    record = attempt(tmp_path, made_of, finalization_grace_seconds=1)
    assert record.timed_out
    assert abs((record.value or 0) - 2 / 3) < 1e-9
    assert [note.code for note in record.notes] == [Code.HARNESS_TIMEOUT]


def test_waiting_in_one_step_gives_no_time_to_the_next(tmp_path: Path) -> None:
    benchmark = CountBenchmark(run_timeout_seconds=0.5)
    agent = Counter(at2="never")
    made_of, _, _ = made(agent, benchmark)
    made_of.model.model.waiting_seconds = 3600.0  # type: ignore[attr-defined]
    record = asyncio.run(asyncio.wait_for(_bounded(tmp_path, made_of), 60))
    assert record.timed_out


async def _bounded(tmp_path: Path, made_of: Parts) -> AttemptRecord:
    job = Job("run", KEY, sample(), ExecutionSettings(finalization_grace_seconds=1))
    desk = AttemptDesk(RunStore(RunFolder(tmp_path)), KEY)
    return await run_attempt(job, made_of, desk, Directly())


def test_an_agent_that_crashes_in_a_step_is_judged_by_what_it_left(tmp_path: Path) -> None:
    made_of, _, _ = made(Counter(at2="crash"), CountBenchmark())
    record = attempt(tmp_path, made_of)
    assert abs((record.value or 0) - 1 / 3) < 1e-9
    assert [(note.code, note.phase) for note in record.notes] == [(Code.HARNESS_CRASHED, Phase.RUN)]


def test_a_grader_that_breaks_in_a_step_gives_no_score_and_no_checkpoint(tmp_path: Path) -> None:
    class Broken(CountBenchmark):
        async def end_step(self, *args: Any) -> Any:
            raise AgentCompassError(Code.GRADER_CRASHED, "out of order")

    made_of, _, _ = made(Counter(), Broken())
    record = attempt(tmp_path, made_of)
    assert record.failure is not None
    assert (record.failure.code, record.failure.phase) == (Code.GRADER_CRASHED, Phase.SCORE)
    store = RunStore(RunFolder(tmp_path))
    assert store.read_checkpoint(KEY) is None
    trajectory = store.read_trajectory(KEY)
    assert trajectory is not None
    assert trajectory.steps[0].message == "step 1"


def test_a_finished_agent_stage_is_judged_again_without_the_agent(tmp_path: Path) -> None:
    agent = Counter(at3="nonsense")
    made_of, _, boxes = made(agent, CountBenchmark())
    first = attempt(tmp_path, made_of)
    checkpoint = RunStore(RunFolder(tmp_path)).read_checkpoint(KEY)
    again = attempt(tmp_path, made_of, checkpoint)
    assert again.value == first.value
    assert agent.calls == 3
    assert boxes.events == ["open run", "close run"]


def test_a_sandbox_lives_as_long_as_all_its_steps(tmp_path: Path) -> None:
    labels = []

    def lifetime(benchmark: YesBenchmark) -> float:
        made_of, _, boxes = made(Counter(), benchmark)
        opening = boxes.open
        boxes.open = lambda required, label: labels.append(label) or opening(required, label)
        attempt(tmp_path, made_of)
        return float(labels[-1].lifetime_seconds)

    once = lifetime(CountBenchmark("reuse", run_timeout_seconds=10_000))
    assert lifetime(CountBenchmark(*["reuse"] * 3, run_timeout_seconds=10_000)) > once + 20_000


def test_preflight_looks_at_the_sandboxes_of_all_steps() -> None:
    def problems(place: str, **capabilities: Any) -> list[str]:
        benchmark = CountBenchmark(place, grading=Requirements(user="nobody", image_needed=True))
        made_of, _, boxes = made(Counter(), benchmark)
        boxes.capabilities = boxes.capabilities.model_copy(update=capabilities)
        return asyncio.run(sandbox_problems(made_of, "boxes", [sample()]))

    assert len(problems("fresh")) == 2
    assert problems("fresh", users=True, images=True) == []
    assert problems("reuse") == []
