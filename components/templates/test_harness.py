"""Against the built-in scripted model: what it answers, logs, and how it ends."""

import asyncio

import pytest

from agentcompass.components.contracts.attempt import AttemptKey, Submission
from agentcompass.components.contracts.errors import AgentCompassError, Code
from agentcompass.components.contracts.model import ModelAccess
from agentcompass.components.contracts.task import Task
from agentcompass.components.execution.log import TrajectoryLog
from agentcompass.components.models import scripted
from agentcompass.components.templates.harness import Example, ExampleParameters

KEY = AttemptKey(task_id="t", index=1)


def ran(script: object, **parameters: str | None) -> tuple[Submission, TrajectoryLog]:
    given = scripted.ScriptedParameters.model_validate({"script": {"default": script}})
    model = scripted.COMPONENT.create(given, ModelAccess("scripted")).client(KEY)
    log = TrajectoryLog("example", "1", "scripted", KEY)
    harness = Example(ExampleParameters.model_validate(parameters))
    task = Task(id="t", instruction="What is 6 times 7?")
    return asyncio.run(harness.run(task, None, model, log)), log


def test_the_second_answer_counts() -> None:
    submission, log = ran(["It is 41.", "42"])
    assert submission.answer == "42"
    assert [step.source for step in log.steps] == ["user", "agent", "user", "agent"]


def test_one_answer_is_enough_if_so_told() -> None:
    assert ran(["41", "42"], second_look=None)[0].answer == "41"


def test_an_empty_answer_is_noted() -> None:
    submission, log = ran({"content": ""})
    assert submission.answer == ""
    assert [note.code for note in log.notes] == [Code.SUBMISSION_EMPTY]


def test_a_failure_of_the_model_is_not_the_agents() -> None:
    with pytest.raises(AgentCompassError) as raised:
        ran({"error": {"code": "model.rate_limited", "message": "slow down"}})
    assert raised.value.code is Code.MODEL_RATE_LIMITED
