"""The known-good solution, played back."""

import asyncio
from pathlib import Path

import pytest

from agentcompass.components.contracts.attempt import Submission
from agentcompass.components.contracts.errors import AgentCompassError, Code
from agentcompass.components.contracts.task import Solution
from agentcompass.components.execution.log import TrajectoryLog
from agentcompass.components.harnesses.oracle import COMPONENT, Oracle, OracleParameters
from tests.components.harnesses.fakes import ProcessSandbox, new_log, task
from tests.conformance.harness import assert_valid_trajectory, assert_well_declared


def play(solution: Solution, folder: Path | None) -> tuple[Submission, TrajectoryLog]:
    log = new_log("oracle")
    env = None if folder is None else ProcessSandbox(folder)
    try:
        submission = asyncio.run(Oracle(OracleParameters()).play(task(), solution, env, log))
    finally:
        assert_valid_trajectory(log.trajectory())
    return submission, log


def test_files_are_written_then_the_command_runs_on_them(tmp_path: Path) -> None:
    solution = Solution(
        files={"src/a.bin": b"\x00\xff\r\n"}, command="wc -c < src/a.bin > size", answer="done"
    )
    submission, log = play(solution, tmp_path)
    assert (tmp_path / "src/a.bin").read_bytes() == b"\x00\xff\r\n"
    assert (tmp_path / "size").read_text().strip() == "4"
    assert submission == Submission(answer="done")
    assert log.notes == []


def test_a_failing_command_is_an_error_with_its_last_words(tmp_path: Path) -> None:
    solution = Solution(command="echo first; echo 'no such flag' >&2; exit 3", answer="x")
    with pytest.raises(AgentCompassError, match="exit code 3: no such flag$") as raised:
        play(solution, tmp_path)
    assert raised.value.code is Code.HARNESS_CRASHED


def test_the_failing_commands_output_is_in_the_trajectory(tmp_path: Path) -> None:
    log = new_log()
    with pytest.raises(AgentCompassError):
        asyncio.run(
            Oracle(OracleParameters()).play(
                task(), Solution(command="echo first; exit 3"), ProcessSandbox(tmp_path), log
            )
        )
    observation = log.steps[-1].observation
    assert observation is not None
    assert observation.results[0].content == "exit code 3\nfirst\n"


def test_an_answer_needs_no_sandbox_but_files_do() -> None:
    submission, _ = play(Solution(answer="42"), None)
    assert submission == Submission(answer="42")
    with pytest.raises(AgentCompassError, match="opened no sandbox"):
        play(Solution(files={"a": b""}), None)


def test_it_is_declared_as_a_solution_harness() -> None:
    assert_well_declared(COMPONENT)
    assert Oracle.needs.solution
    assert not Oracle.needs.model
