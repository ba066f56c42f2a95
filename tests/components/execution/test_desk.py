"""What rises from an attempt's phases: its code, and its message without half a secret."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from agentcompass.components.contracts.attempt import AttemptKey
from agentcompass.components.contracts.errors import AgentCompassError, Code, Phase
from agentcompass.components.contracts.requirements import Requirements
from agentcompass.components.contracts.sandbox import ExecResult
from agentcompass.components.execution import sandbox
from agentcompass.components.execution.desk import LONGEST_MESSAGE, AttemptDesk
from agentcompass.components.results.masking import Masker
from agentcompass.components.results.paths import RunFolder
from agentcompass.components.results.store import RunStore

SECRET = "sk-live-0123456789abcdefghijklmnopqrstuvwxyzABCDEF"
KEY = AttemptKey(task_id="t1", index=1)


def rising(folder: Path, phase: Phase, error: Exception, code: Code) -> AgentCompassError:
    store = RunStore(RunFolder(folder), Masker([SECRET]))
    with (
        pytest.raises(AgentCompassError) as raised,
        AttemptDesk(store, KEY).in_phase(phase, unexpected=code),
    ):
        raise error
    return raised.value


class Failing:
    def __init__(self, output: str) -> None:
        self.output = output

    async def exec(self, command: str, **options: Any) -> ExecResult:
        return ExecResult(1, "", self.output)


def parts_of_secret(text: str) -> list[str]:
    return [SECRET[at : at + 8] for at in range(len(SECRET) - 8) if SECRET[at : at + 8] in text]


@pytest.mark.parametrize("before", range(420, 500, 7))
def test_no_part_of_a_secret_is_left_where_an_unexpected_error_is_cut(
    tmp_path: Path, before: int
) -> None:
    error = RuntimeError("x" * before + " " + SECRET + " refused")
    risen = rising(tmp_path, Phase.RUN, error, Code.HARNESS_CRASHED)
    assert parts_of_secret(str(risen)) == []
    assert len(str(risen)) <= 500


@pytest.mark.parametrize("after", range(340, 410, 10))
def test_no_part_of_a_secret_is_left_of_a_set_up_command_that_shows_itself(
    tmp_path: Path, after: int
) -> None:
    env: Any = Failing(f'+ curl -H "Authorization: Bearer {SECRET}" https://x\n{"e" * after}')
    with pytest.raises(AgentCompassError) as failed:
        asyncio.run(sandbox._set_up(env, Requirements(commands=("curl x",))))
    risen = rising(tmp_path, Phase.SETUP, failed.value, Code.ENVIRONMENT_SETUP)
    assert parts_of_secret(str(risen)) == []
    assert str(risen).startswith("set-up command 'curl x' ended with 1: + curl -H")


def test_a_long_message_keeps_its_beginning_and_its_end_and_the_log_has_all(
    tmp_path: Path,
) -> None:
    error = AgentCompassError(Code.ENVIRONMENT_SETUP, f"pip failed: {'.' * 5000} no such version")
    risen = rising(tmp_path, Phase.SETUP, error, Code.ENVIRONMENT_SETUP)
    assert str(risen).startswith("pip failed: ...")
    assert str(risen).endswith("no such version")
    assert len(str(risen)) <= LONGEST_MESSAGE + 3
    assert str(error) in RunFolder(tmp_path).attempt_log(KEY).read_text()


@pytest.mark.parametrize(
    ("phase", "unexpected"),
    [
        (Phase.SCORE, Code.GRADER_CRASHED),
        (Phase.SETUP, Code.ENVIRONMENT_SETUP),
        (Phase.COLLECT, Code.FRAMEWORK_UNEXPECTED),
    ],
)
def test_a_code_of_the_agents_work_is_none_where_the_agent_does_not_work(
    tmp_path: Path, phase: Phase, unexpected: Code
) -> None:
    error = AgentCompassError(Code.MODEL_CONTEXT_WINDOW, "the judge's model: 9000 tokens")
    risen = rising(tmp_path, phase, error, unexpected)
    assert risen.code is unexpected
    assert str(risen) == "model.context_window: the judge's model: 9000 tokens"


def test_the_agents_own_code_and_the_infrastructures_stay(tmp_path: Path) -> None:
    outgrown = AgentCompassError(Code.MODEL_CONTEXT_WINDOW, "9000 tokens")
    lost = AgentCompassError(Code.ENVIRONMENT_LOST, "gone")
    assert rising(tmp_path, Phase.RUN, outgrown, Code.HARNESS_CRASHED).code is outgrown.code
    assert rising(tmp_path, Phase.SCORE, lost, Code.GRADER_CRASHED).code is lost.code
