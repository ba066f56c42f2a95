"""Any tasks in the Harbor format: a local folder, a git repository, or a list of them."""

from agentcompass.components.benchmarks._harbor.benchmark import HarborTasks
from agentcompass.components.benchmarks._harbor.judging import Terms
from agentcompass.components.benchmarks._harbor.parameters import HarborParameters
from agentcompass.components.contracts.protocols import Component


class HarborTasksParameters(HarborParameters):
    data_path: str | tuple[str, ...]
    """A local folder of tasks, one task's folder, a git address (`ADDRESS#REVISION:FOLDER`), or a
    list of these."""
    revision: str | None = None
    """Commit, branch or tag, for git addresses that name none; unset: the default branch."""
    reward_key: str = "reward"
    """Which number of reward.json is the score; the others are kept as metrics."""
    score_range: tuple[float, float] = (0.0, 1.0)
    """Smallest and largest valid reward; another is the grader's error."""


def create(parameters: HarborTasksParameters) -> HarborTasks:
    """The score is the verifier's reward."""
    given = parameters.data_path
    terms = Terms(key=parameters.reward_key, score_range=parameters.score_range)
    entries = (given,) if isinstance(given, str) else given
    return HarborTasks(parameters, entries, parameters.revision, "score", terms)


COMPONENT = Component(version="2", create=create, parameters=HarborTasksParameters)
