"""Gives the model's answer if it runs where this package's recipe and environment hold."""

from agentcompass.components.contracts.attempt import Submission
from agentcompass.components.contracts.model import Message, ModelRequest
from agentcompass.components.contracts.parameters import HarnessParameters
from agentcompass.components.contracts.protocols import AttemptLog, Component, ModelClient, Needs
from agentcompass.components.contracts.sandbox import Environment
from agentcompass.components.contracts.task import Task


class ShellParameters(HarnessParameters):
    expected: str = "recipe environment"
    """What the sandbox says of itself."""


class Shell:
    needs = Needs()

    def __init__(self, parameters: ShellParameters) -> None:
        self._parameters = parameters

    async def run(
        self, task: Task, env: Environment | None, model: ModelClient, log: AttemptLog
    ) -> Submission:
        assert env is not None
        log.user(task.instruction)
        question = Message(role="user", content=task.instruction)
        reply = await model.complete(ModelRequest(messages=(question,)))
        log.agent(reply)
        said = await env.exec('printf %s "$FROM_RECIPE $FROM_ENVIRONMENT"')
        found = said.stdout == self._parameters.expected
        return Submission(answer=reply.message.content if found else said.stdout)


COMPONENT = Component(version="1", create=Shell, parameters=ShellParameters)
NO_COMPONENT = 7
