"""The user's deadline, else the task's own, else the default."""

import pytest

from agentcompass.components.contracts.run import ExecutionSettings
from agentcompass.components.contracts.task import Task
from agentcompass.components.execution.deadlines import deadlines

PHASES = {"setup": "setup", "run": "run", "score": "evaluation"}


@pytest.mark.parametrize(("phase", "default"), [("setup", 600), ("run", 3600), ("score", 600)])
def test_the_user_wins_over_the_task_and_the_task_over_the_default(
    phase: str, default: float
) -> None:
    field = f"{PHASES[phase]}_timeout_seconds"
    plain = Task(id="t", instruction="i")
    own = plain.model_copy(update={field: 1800.0})

    def seconds(task: Task, **settings: float) -> float | None:
        found: float | None = getattr(
            deadlines(ExecutionSettings.model_validate(settings), task), phase
        )
        return found

    assert seconds(plain) == default
    assert seconds(own) == 1800
    assert seconds(own, **{field: 5}) == 5
    assert seconds(own, timeout_multiplier=2) == 3600
    assert seconds(own, **{field: 0}) is None  # no deadline
