"""Terminal-Bench 2: 89 tasks in a terminal, each judged by its own tests."""

from agentcompass.components.benchmarks._harbor.benchmark import HarborTasks
from agentcompass.components.benchmarks._harbor.judging import Terms
from agentcompass.components.benchmarks._harbor.parameters import HarborParameters
from agentcompass.components.contracts.protocols import Component

REPOSITORY = "https://github.com/laude-institute/terminal-bench-2.git"
REVISION = "69671fbaac6d67a7ef0dfec016cc38a64ef7a77c"
"""The one that Harbor's registry calls terminal-bench@2.0."""


class TerminalBench2Parameters(HarborParameters):
    data_path: str | tuple[str, ...] | None = None
    """A local folder of tasks, one task's folder, a git address (`ADDRESS#REVISION:FOLDER`), or a
    list of these; unset: the public repository, kept under `--data-dir`."""
    revision: str | None = None
    """Commit, branch or tag of the git repository; unset: the data set's release 2.0."""


def create(parameters: TerminalBench2Parameters) -> HarborTasks:
    """Solved when the reward is 1 and no test of its report failed."""
    given = parameters.data_path
    if given is None:
        entries: tuple[str, ...] = (
            REPOSITORY if parameters.revision else f"{REPOSITORY}#{REVISION}",
        )
    else:
        entries = (given,) if isinstance(given, str) else given
    return HarborTasks(
        parameters, entries, parameters.revision, "correct", Terms(report_agrees=True)
    )


COMPONENT = Component(version="2", create=create, parameters=TerminalBench2Parameters)
