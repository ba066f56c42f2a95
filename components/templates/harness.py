"""An example: asks the model, lets it look at its own answer, and takes the second one."""

from agentcompass.components.contracts.attempt import Submission
from agentcompass.components.contracts.errors import Code
from agentcompass.components.contracts.model import Message, ModelRequest
from agentcompass.components.contracts.parameters import HarnessParameters
from agentcompass.components.contracts.protocols import AttemptLog, Component, ModelClient, Needs
from agentcompass.components.contracts.sandbox import Environment
from agentcompass.components.contracts.task import Task


class ExampleParameters(HarnessParameters):
    """Each field is a key of --harness-params; its docstring is its documentation."""

    second_look: str | None = "Check your answer. Then give the final one, alone."
    """Asked after the first answer; null: the first answer is final."""


class Example:
    needs = Needs(sandbox=False)  # an agent that runs commands leaves `sandbox` at True

    def __init__(self, parameters: ExampleParameters) -> None:
        self._parameters = parameters

    async def run(
        self, task: Task, env: Environment | None, model: ModelClient, log: AttemptLog
    ) -> Submission:
        """Failures of the model rise as they are. Commands go through `env.exec`. What is logged
        is the attempt's trajectory; it survives a crash half-way."""
        answer, messages = "", []
        for text in filter(None, (task.instruction, self._parameters.second_look)):
            messages.append(Message(role="user", content=text))
            log.user(text)
            reply = await model.complete(ModelRequest(messages=tuple(messages)))
            log.agent(reply)
            messages.append(reply.message)
            answer = reply.message.content
        if not answer.strip():
            log.note(Code.SUBMISSION_EMPTY, "the last reply has no text")
        return Submission(answer=answer)


COMPONENT = Component(version="1", create=Example, parameters=ExampleParameters)
