"""Details, checkpoints and trajectories for tests, made from short descriptions of outcomes."""

from datetime import UTC, datetime, timedelta

from agentcompass.components.contracts.attempt import (
    Artifact,
    AttemptKey,
    AttemptRecord,
    Checkpoint,
    Detail,
    Evidence,
    Note,
    PhaseTimes,
    Submission,
    Verdict,
)
from agentcompass.components.contracts.errors import Code, Phase
from agentcompass.components.contracts.trajectory import (
    AgentInfo,
    AtifToolCall,
    FinalMetrics,
    Observation,
    ObservationResult,
    Step,
    StepMetrics,
    Trajectory,
)
from agentcompass.components.contracts.usage import Usage

START = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)

Outcome = bool | int | float | Code | None | str
"""0/1/bool: binary verdict; float: scalar score; Code: unscored; None: never ended; "skip"."""


def detail(task_id: str, *outcomes: Outcome, category: str | None = None) -> Detail:
    records = [
        record(task_id, index, outcome)
        for index, outcome in enumerate(outcomes, 1)
        if outcome is not None
    ]
    return Detail(
        task_id=task_id,
        category=category,
        instruction=f"Solve {task_id}.",
        content_hash="0" * 64,
        planned=max(1, len(outcomes)),
        attempts=tuple(records),
    )


def record(task_id: str, index: int, outcome: Outcome, **fields: object) -> AttemptRecord:
    key = AttemptKey(task_id=task_id, index=index)
    if outcome == "skip":
        return AttemptRecord(key=key, status="skipped")
    common = {
        "key": key,
        "started_at": START + timedelta(minutes=index),
        "ended_at": START + timedelta(minutes=index, seconds=30),
        "times": PhaseTimes(setup_seconds=1.5, run_seconds=20, waiting_seconds=0.1 * index),
        "usage": Usage(calls=2, input_tokens=100, output_tokens=10, cost_usd=0.1 * index),
    }
    if isinstance(outcome, Code):
        failure = Note(code=outcome, phase=Phase.RUN, message=f"{outcome} on {task_id}")
        ending = {"status": "unscored", "failure": failure}
    elif isinstance(outcome, float):
        ending = {"status": "scored", "verdict": Verdict(score=outcome)}
    else:
        ending = {"status": "scored", "verdict": Verdict(correct=bool(outcome))}
    return AttemptRecord.model_validate({**common, **ending, **fields})


def full_checkpoint(key: AttemptKey | None = None) -> Checkpoint:
    return Checkpoint(
        content_hash="0" * 64,
        key=key or AttemptKey(task_id="django/Ticket #7", index=2, physical=3),
        submission=Submission(
            answer="42 \u2028 \U0001f600 \\u0000",
            stop_reason="step_limit",
            artifacts=(
                Artifact(
                    name="patch.diff",
                    path="../repo/patch.diff",
                    sha256="a" * 64,
                    size_bytes=17,
                    mode=0o755,
                ),
            ),
        ),
        notes=(Note(code=Code.HARNESS_STEP_LIMIT, phase=Phase.RUN, message="30 steps"),),
        timed_out=True,
        usage=Usage(calls=3, input_tokens=1200, output_tokens=80, unpriced_calls=3),
        times=PhaseTimes(setup_seconds=2.25, run_seconds=61.5, waiting_seconds=4.0),
        started_at=START,
        ended_at=START + timedelta(seconds=70, microseconds=5),
        harness_version="2.4.1",
        image="local/base@sha256:" + "d" * 64,
    )


def full_detail() -> Detail:
    checkpoint = full_checkpoint()
    scored = AttemptRecord(
        key=checkpoint.key,
        status="scored",
        verdict=Verdict(
            correct=False,
            metrics={"compiles": True, "tests_passed": 0.75, "lines": 12.0},
            evidence=(Evidence(name="test_a", passed=False, text="expected 1\nbut was 2"),),
            notes=(Note(code=Code.GRADER_TAMPERED, phase=Phase.SCORE, message="edited tests"),),
        ),
        notes=checkpoint.notes,
        submission=checkpoint.submission,
        timed_out=True,
        usage=checkpoint.usage,
        times=checkpoint.times.model_copy(update={"collect_seconds": 0.5, "score_seconds": 9.0}),
        started_at=checkpoint.started_at,
        ended_at=checkpoint.ended_at,
        harness_version="2.4.1",
        image="local/base@sha256:" + "d" * 64,
    )
    lost = record("django/Ticket #7", 1, Code.ENVIRONMENT_LOST)
    return Detail(
        task_id="django/Ticket #7",
        category="web",
        instruction="Repariere 修复 the bug.",
        content_hash="b" * 64,
        planned=3,
        attempts=(lost, scored, record("django/Ticket #7", 3, "skip")),
    )


def full_trajectory() -> Trajectory:
    return Trajectory(
        session_id="django/Ticket #7 #2",
        agent=AgentInfo(
            name="loop",
            version="1",
            model_name="m",
            tool_definitions=({"name": "shell", "parameters": {"type": "object"}},),
        ),
        steps=(
            Step(step_id=1, source="system", message="You are an agent.", timestamp="2026-01-02"),
            Step(step_id=2, source="user", message="Solve it."),
            Step(
                step_id=3,
                source="agent",
                message="",
                model_name="m",
                reasoning_content="Look first.",
                tool_calls=(
                    AtifToolCall(
                        tool_call_id="c1",
                        function_name="shell",
                        arguments={"z": None, "a": [1, 2.5, True], "command": "ls"},
                    ),
                ),
                observation=Observation(
                    results=(ObservationResult(source_call_id="c1", content="README.md\n"),)
                ),
                metrics=StepMetrics(prompt_tokens=10, completion_tokens=2),
            ),
        ),
        final_metrics=FinalMetrics(total_prompt_tokens=10, total_steps=3),
    )
