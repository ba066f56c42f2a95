"""The agent that does nothing."""

import asyncio
from pathlib import Path

from agentcompass.components.contracts.attempt import Submission
from agentcompass.components.harnesses.idle import COMPONENT, Idle, IdleParameters
from tests.components.harnesses.fakes import ProcessSandbox, ScriptedModel, new_log, task
from tests.conformance.harness import assert_valid_trajectory, assert_well_declared


def test_it_answers_nothing_asks_nothing_and_touches_nothing(tmp_path: Path) -> None:
    model, log, env = ScriptedModel(), new_log("idle"), ProcessSandbox(tmp_path)
    submission = asyncio.run(Idle(IdleParameters()).run(task(), env, model, log))
    assert submission == Submission()
    assert (model.requests, env.commands, list(tmp_path.iterdir())) == ([], [], [])
    assert_valid_trajectory(log.trajectory())
    assert log.steps[-1].source == "agent"


def test_it_needs_neither_model_nor_sandbox() -> None:
    assert_well_declared(COMPONENT)
    assert not Idle.needs.model
    assert not Idle.needs.sandbox
