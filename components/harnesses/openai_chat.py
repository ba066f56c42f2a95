"""One question, one reply, no tools: the reply's text is the answer.

The name is historical: it speaks every model protocol.
"""

from agentcompass.components.contracts.attempt import Submission
from agentcompass.components.contracts.errors import AgentCompassError, Code
from agentcompass.components.contracts.model import Message, ModelReply, ModelRequest
from agentcompass.components.contracts.parameters import HarnessParameters
from agentcompass.components.contracts.protocols import AttemptLog, Component, ModelClient, Needs
from agentcompass.components.contracts.sandbox import Environment
from agentcompass.components.contracts.task import Task
from agentcompass.components.harnesses._endings import end_or_raise


class ChatParameters(HarnessParameters):
    """What stands around the question."""

    system_prompt: str | None = None
    """Sent before the task's instruction; unset: no system message."""


class Chat:
    """Asks the model once. Reasoning is recorded, never taken for the answer."""

    needs = Needs(sandbox=False)

    def __init__(self, parameters: ChatParameters) -> None:
        self.parameters = parameters

    async def run(
        self, task: Task, env: Environment | None, model: ModelClient, log: AttemptLog
    ) -> Submission:
        messages = []
        if self.parameters.system_prompt:
            messages.append(Message(role="system", content=self.parameters.system_prompt))
            log.system(self.parameters.system_prompt)
        messages.append(Message(role="user", content=task.instruction))
        log.user(task.instruction)
        try:
            reply = await model.complete(ModelRequest(messages=tuple(messages)))
        except AgentCompassError as error:
            return end_or_raise(error, log)
        log.agent(reply)
        return _submission(reply, log)


def _submission(reply: ModelReply, log: AttemptLog) -> Submission:
    answer = reply.message.content
    stop_reason = "finished"
    if reply.finish_reason == "content_filter":
        stop_reason = "content_filter"
        log.note(Code.MODEL_CONTENT_FILTER, "the provider filtered the reply")
    elif reply.finish_reason == "length":
        stop_reason = "length"
    if not answer.strip():
        log.note(Code.SUBMISSION_EMPTY, f"the reply has no text{_why_empty(reply)}")
    return Submission(answer=answer, stop_reason=stop_reason)


def _why_empty(reply: ModelReply) -> str:
    if reply.finish_reason == "length":
        return ": it was cut off at the token limit" + (
            " while reasoning" if reply.message.reasoning else ""
        )
    if reply.message.tool_calls:
        return ": it calls a tool, and none was offered"
    return ", only reasoning" if reply.message.reasoning else ""


COMPONENT = Component(version="1", create=Chat, parameters=ChatParameters)
