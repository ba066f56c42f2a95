"""Who is late decides: an agent out of time is graded, a set-up or a grader has no score (C15)."""

import asyncio
import json
from pathlib import Path
from typing import Any

from agentcompass.components.contracts.attempt import Submission, Verdict
from agentcompass.components.contracts.protocols import ArtifactDesk
from agentcompass.components.contracts.sandbox import Environment
from agentcompass.components.contracts.task import Sample, Task
from tests.cases.rig import ask, measure
from tests.cases.toy import Toy

RIGHT_BUT_LATE, NOTHING_BUT_LATE, GRADER_LATE, SETUP_LATE = (f"toy-{n}" for n in range(1, 5))
DEADLINES: dict[str, Any] = {
    "run_timeout_seconds": 2,
    "finalization_grace_seconds": 1,
    "evaluation_timeout_seconds": 2,
    "setup_timeout_seconds": 4,
}


class Late(Toy):
    """The fourth task's set-up hangs, and the third one's verifier."""

    def __init__(self) -> None:
        super().__init__(4)
        self.prepared: list[str] = []

    async def prepare(self, task: Task, env: Environment) -> None:
        self.prepared.append(task.id)
        if task.id == SETUP_LATE:
            await env.exec("sleep 600")

    async def verify(
        self, sample: Sample, submission: Submission, env: Environment | None, desk: ArtifactDesk
    ) -> Verdict:
        if sample.task.id == GRADER_LATE:
            self.verified.append(sample.task.id)
            await asyncio.sleep(600)
        return await super().verify(sample, submission, env, desk)


def script() -> dict[str, Any]:
    def shell(command: str) -> dict[str, Any]:
        return {"tool_calls": [{"name": "shell", "arguments": {"command": command}}]}

    return {
        "tasks": {
            RIGHT_BUT_LATE: [shell("echo 1 > answer.txt; sleep 600")],
            NOTHING_BUT_LATE: [shell("sleep 600")],
            GRADER_LATE: [shell("echo 3 > answer.txt"), "done"],
        }
    }


def test_the_class_follows_the_phase_and_only_what_is_not_the_agents_is_tried_again(
    tmp_path: Path,
) -> None:
    benchmark = Late()
    request = ask(
        tmp_path,
        *("quickstart", "tool_agent"),
        model="scripted",
        model_params={"script": script()},
        max_retries=1,
        **DEADLINES,
    )
    ran = measure(request, benchmark)
    assert ran.codes() == {
        f"{RIGHT_BUT_LATE} #1": None,
        f"{NOTHING_BUT_LATE} #1": None,
        f"{GRADER_LATE} #1": "grader.timeout",
        f"{SETUP_LATE} #1": "environment.setup_timeout",
    }
    for task, value in ((RIGHT_BUT_LATE, 1.0), (NOTHING_BUT_LATE, 0.0)):
        record = ran.record(task)
        assert (record.value, record.timed_out, record.earlier_failures) == (value, True, ())
        assert "harness.timeout" in {note.code.value for note in record.notes}
    assert {task: benchmark.prepared.count(task) for task in benchmark.prepared} == {
        RIGHT_BUT_LATE: 1,
        NOTHING_BUT_LATE: 1,
        GRADER_LATE: 2,  # its verifier needs the agent's own sandbox
        SETUP_LATE: 2,
    }
    outcomes = ran.metrics.outcomes
    assert (outcomes.correct, outcomes.incorrect, ran.metrics.timed_out) == (1, 1, 2)
    assert outcomes.unscored == {"grader.timeout": 1, "environment.setup_timeout": 1}
    assert ran.metrics.failures_by_owner == {"grader": 1, "environment": 1}
    report = json.loads((ran.folder / "analysis/failures.json").read_bytes())
    assert {one["task_id"] for one in report["findings"] if one["severity"] != "info"} >= {
        GRADER_LATE,
        SETUP_LATE,
    }
