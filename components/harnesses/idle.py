"""The agent that does nothing; every sound benchmark scores it 0.

Used by `agentcompass validate`: a task that an empty submission solves is broken.
"""

from agentcompass.components.contracts.attempt import Submission
from agentcompass.components.contracts.parameters import HarnessParameters
from agentcompass.components.contracts.protocols import AttemptLog, Component, ModelClient, Needs
from agentcompass.components.contracts.sandbox import Environment
from agentcompass.components.contracts.task import Task


class IdleParameters(HarnessParameters):
    """None."""


class Idle:
    """Leaves the sandbox as it found it and answers nothing."""

    needs = Needs(sandbox=False, model=False)

    def __init__(self, parameters: IdleParameters) -> None:
        self.parameters = parameters

    async def run(
        self, task: Task, env: Environment | None, model: ModelClient, log: AttemptLog
    ) -> Submission:
        log.user(task.instruction)
        log.action("(does nothing)")
        return Submission()


COMPONENT = Component(version="1", create=Idle, parameters=IdleParameters)
