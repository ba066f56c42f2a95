"""What an agent does to its own sandbox costs it its score, and nobody else's trouble does."""

import asyncio
import errno
from typing import Any

import pytest

from agentcompass.components.contracts.attempt import Submission
from agentcompass.components.contracts.errors import AgentCompassError, Code
from agentcompass.components.contracts.sandbox import ExecResult
from agentcompass.components.execution import collecting
from tests.standins.parts import sample

LEFT = Submission(answer="here")


class Sandbox:
    def __init__(
        self, *, alive: bool = True, shell: str = "works\n", disk_limited: bool = False
    ) -> None:
        self._alive, self._shell = alive, shell
        self.disk_limited = disk_limited

    async def alive(self) -> bool:
        return self._alive

    async def exec(self, command: Any, **options: Any) -> ExecResult:
        if not self._shell:
            raise AgentCompassError(Code.ENVIRONMENT_LOST, "no shell")
        return ExecResult(0, self._shell, "")


class Collecting:
    def __init__(self, error: Exception) -> None:
        self.error = error

    async def collect(self, *given: Any) -> Submission:
        raise self.error


class Desk:
    def __init__(self) -> None:
        self.notes: list[tuple[Code, str]] = []

    def note(self, code: Code, message: str) -> None:
        self.notes.append((code, message))


def failed(code: Code, text: str = "x") -> AgentCompassError:
    return AgentCompassError(code, text)


def collect(error: Exception, env: Sandbox | None) -> tuple[Submission, Desk]:
    desk = Desk()
    benchmark: Any = Collecting(error)
    place: Any = env
    work = collecting.collect(benchmark, sample().task, place, LEFT, desk, 60)  # type: ignore[arg-type]
    return asyncio.run(work), desk


@pytest.mark.parametrize(
    ("error", "env"),
    [
        (PermissionError("workspace"), Sandbox()),
        (FileNotFoundError("workspace"), Sandbox()),
        (NotADirectoryError("workspace"), Sandbox()),
        (IsADirectoryError("answer.txt"), Sandbox()),
        (OSError(errno.ELOOP, "links in a circle", "workspace"), Sandbox()),
        (OSError(errno.ENOSYS, "cat: not found", "workspace"), Sandbox()),
        (OSError(errno.ENOSPC, "its own disk is full"), Sandbox(disk_limited=True)),
        (failed(Code.ENVIRONMENT_LOST), Sandbox(shell="")),
        (failed(Code.ENVIRONMENT_LOST), Sandbox(shell="forged")),
        (failed(Code.ARTIFACT_TIMEOUT), Sandbox(shell="")),
        (failed(Code.ARTIFACT_FAILED, "git: not found"), Sandbox()),
        (failed(Code.ARTIFACT_FAILED, "odd"), Sandbox(shell="")),
    ],
)
def test_a_sandbox_wrecked_by_the_agent_is_an_empty_submission(
    error: Exception, env: Sandbox
) -> None:
    submission, desk = collect(error, env)
    assert submission == LEFT
    ((code, message),) = desk.notes
    assert code is Code.SUBMISSION_EMPTY
    assert str(error) in message


@pytest.mark.parametrize(
    ("error", "env"),
    [
        (failed(Code.ENVIRONMENT_LOST), Sandbox(alive=False, shell="")),
        (failed(Code.ENVIRONMENT_LOST), Sandbox()),
        (failed(Code.ARTIFACT_TIMEOUT), Sandbox()),
        (failed(Code.ARTIFACT_TIMEOUT), Sandbox(alive=False, shell="")),
        (failed(Code.ARTIFACT_FAILED, "odd"), Sandbox()),
        (failed(Code.ARTIFACT_FAILED, "git: not found"), Sandbox(alive=False)),
        (failed(Code.ENVIRONMENT_DISK_FULL), Sandbox(shell="")),
        (failed(Code.RESULTS_WRITE), Sandbox(shell="")),
        (PermissionError("no sandbox"), None),
        (ZeroDivisionError(), Sandbox(shell="")),
        (TimeoutError("no answer"), Sandbox()),
        (ConnectionResetError(errno.ECONNRESET, "reset"), Sandbox()),
        (OSError(errno.EMFILE, "too many open files"), Sandbox()),
        (OSError(errno.ENOSPC, "this machine's disk is full"), Sandbox()),
        (OSError("of no kind"), Sandbox()),
    ],
)
def test_every_other_failure_rises(error: Exception, env: Sandbox | None) -> None:
    with pytest.raises(type(error)):
        collect(error, env)
