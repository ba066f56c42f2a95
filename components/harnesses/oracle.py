"""Plays back the benchmark's known-good solution; every sound benchmark scores it full marks.

Used by `agentcompass validate`: a task that its own solution does not solve is broken.
"""

from agentcompass.components.contracts.attempt import Submission
from agentcompass.components.contracts.errors import AgentCompassError, Code
from agentcompass.components.contracts.parameters import HarnessParameters
from agentcompass.components.contracts.protocols import AttemptLog, Component, Needs
from agentcompass.components.contracts.sandbox import Environment, ExecResult
from agentcompass.components.contracts.task import Solution, Task
from agentcompass.components.harnesses._text import shorten


class OracleParameters(HarnessParameters):
    """None."""


class Oracle:
    """Writes the solution's files, runs its command in the workdir, gives its answer."""

    # No sandbox of its own: answers need none, and benchmarks with files ask for one themselves.
    needs = Needs(sandbox=False, model=False, solution=True)

    def __init__(self, parameters: OracleParameters) -> None:
        self.parameters = parameters

    async def play(
        self, task: Task, solution: Solution, env: Environment | None, log: AttemptLog
    ) -> Submission:
        """Raises `harness.crashed` if the solution's command fails."""
        log.user(task.instruction)
        if env is None and (solution.files or solution.command is not None):
            raise AgentCompassError(
                Code.FRAMEWORK_UNEXPECTED,
                "the solution has files or a command, but the benchmark opened no sandbox",
            )
        if env is not None:
            for path, content in solution.files.items():
                log.action(f"write {path} ({len(content)} bytes)")
                await env.write_file(path, content)
            if solution.command is not None:
                await _run(solution.command, env, log)
        log.action("answer" if solution.answer is None else f"answer: {solution.answer}")
        return Submission(answer=solution.answer)


async def _run(command: str, env: Environment, log: AttemptLog) -> None:
    log.action(command)
    result = await env.exec(command)
    log.observe(None, _output(result))
    if not result.ok:
        last = (result.stderr.strip() or result.stdout.strip() or "no output").splitlines()[-1]
        raise AgentCompassError(
            Code.HARNESS_CRASHED,
            f"the solution's command ended with exit code {result.exit_code}: "
            + shorten(last, 500).replace("\n", " "),
        )


def _output(result: ExecResult) -> str:
    return f"exit code {result.exit_code}\n{result.stdout}{result.stderr}"


COMPONENT = Component(version="1", create=Oracle, parameters=OracleParameters)
