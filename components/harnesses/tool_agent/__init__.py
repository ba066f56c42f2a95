"""A small tool-calling agent: a shell, files, and `submit`.

The loop asks the model, runs the tools it calls in order, and shows it the results, until it
submits or a limit ends it. Odd replies are answered, never guessed at:

- a malformed call, an unknown tool, wrong arguments: an error result for that call; the other
  calls of the reply run;
- no tool call: a reminder; after `odd_reply_limit` such replies in a row the last text is taken
  for the answer, and `harness.format` is noted.

What the reply said is sent back unchanged, reasoning and opaque fields included. `stop_reason`
is one of `finished`, `step_limit`, `token_limit`, `cost_limit`, `format`, `context_window`,
`content_filter`.
"""

from typing import Annotated

from pydantic import Field

from agentcompass.components.contracts.attempt import Submission
from agentcompass.components.contracts.errors import AgentCompassError, Code
from agentcompass.components.contracts.model import Message, ModelReply, ModelRequest
from agentcompass.components.contracts.parameters import HarnessParameters
from agentcompass.components.contracts.protocols import AttemptLog, Component, ModelClient, Needs
from agentcompass.components.contracts.sandbox import Environment
from agentcompass.components.contracts.task import Task
from agentcompass.components.contracts.usage import Usage
from agentcompass.components.harnesses._endings import end_or_raise, end_with
from agentcompass.components.harnesses.tool_agent.tools import TOOLS, Submitted, Toolbox

SYSTEM_PROMPT = """\
You solve tasks on a Linux machine by calling tools. Every command runs in a new shell in the \
working directory, without a terminal: nothing can answer a prompt, and directory or variable \
changes do not last. Work until the task is done, check your work, then call `submit` once. If \
the task asks for an answer, give it to `submit` in exactly the form that is asked for."""


class ToolAgentParameters(HarnessParameters):
    """Limits of the loop. 0 = no limit where it says so."""

    system_prompt: str = SYSTEM_PROMPT
    """The system message; empty: none."""
    step_limit: Annotated[int, Field(ge=1)] = 50
    """Model replies in one attempt."""
    token_limit: Annotated[int, Field(ge=0)] = 0
    """Input and output tokens of all replies together; 0: none. No new step is begun over it."""
    cost_limit: Annotated[float, Field(ge=0)] = 0
    """US dollars of all replies together; 0: none. Needs known prices. No new step over it."""
    command_timeout_seconds: Annotated[float, Field(gt=0)] = 300
    """A command still running after this is killed; a call may ask for less."""
    observation_limit_chars: Annotated[int, Field(ge=200)] = 16_000
    """The model is shown at most this much of a result: its head and tail."""
    odd_reply_limit: Annotated[int, Field(ge=1)] = 3
    """So many replies in a row without a tool call end the attempt."""


class ToolAgent:
    needs = Needs(tools=True)

    def __init__(self, parameters: ToolAgentParameters) -> None:
        self.parameters = parameters

    async def run(
        self, task: Task, env: Environment | None, model: ModelClient, log: AttemptLog
    ) -> Submission:
        if env is None:
            raise AgentCompassError(Code.FRAMEWORK_UNEXPECTED, "tool_agent runs in a sandbox")
        return await _Conversation(self.parameters, task, env, model, log).run()


class _Conversation:
    """One attempt: the messages so far and what they cost."""

    def __init__(
        self,
        parameters: ToolAgentParameters,
        task: Task,
        env: Environment,
        model: ModelClient,
        log: AttemptLog,
    ) -> None:
        self.parameters, self.model, self.log = parameters, model, log
        self.messages: list[Message] = []
        self.usage = Usage()
        self.odd_replies = 0
        self.last_text: str | None = None
        """Of the latest reply without a tool call: the answer of an agent that never submits."""
        self.toolbox = Toolbox(
            env,
            timeout_seconds=parameters.command_timeout_seconds,
            limit_chars=parameters.observation_limit_chars,
        )
        self.instruction = task.instruction

    async def run(self) -> Submission:
        self._start()
        for _ in range(self.parameters.step_limit):
            if (ended := self._over_budget()) is not None:
                return ended
            try:
                reply = await self.model.complete(
                    ModelRequest(messages=tuple(self.messages), tools=TOOLS)
                )
            except AgentCompassError as error:
                return end_or_raise(error, self.log, answer=self.last_text)
            self.usage += reply.usage
            self.log.agent(reply)
            if (ended := await self._act(reply)) is not None:
                return ended
        return self._end(
            Code.HARNESS_STEP_LIMIT, f"step limit {self.parameters.step_limit} reached"
        )

    def _start(self) -> None:
        self.log.tools(TOOLS)
        if self.parameters.system_prompt:
            self.messages.append(Message(role="system", content=self.parameters.system_prompt))
            self.log.system(self.parameters.system_prompt)
        self._say(self.instruction)

    def _over_budget(self) -> Submission | None:
        """Unknown tokens and prices count as nothing: a limit acts on what is known."""
        tokens = (self.usage.input_tokens or 0) + (self.usage.output_tokens or 0)
        if 0 < self.parameters.token_limit <= tokens:
            message = f"token limit {self.parameters.token_limit} reached: {tokens} used"
            return self._end(Code.HARNESS_TOKEN_LIMIT, message)
        cost = self.usage.cost_usd or 0.0
        if 0 < self.parameters.cost_limit <= cost:
            message = f"cost limit ${self.parameters.cost_limit:g} reached: ${cost:.4f} spent"
            return self._end(Code.HARNESS_COST_LIMIT, message)
        return None

    async def _act(self, reply: ModelReply) -> Submission | None:
        message = reply.message
        if message.content or message.tool_calls:  # endpoints refuse an empty message sent back
            self.messages.append(message)
        if not message.tool_calls:
            return self._remind(reply)
        self.odd_replies = 0
        submitted: Submitted | None = None
        for call in message.tool_calls:
            if submitted is not None:
                self.log.observe(call.id, "not run: the agent had submitted")
                continue
            result = await self.toolbox.call(call, cut_off=reply.finish_reason == "length")
            if isinstance(result, Submitted):
                submitted = result
                self.log.observe(call.id, "submitted")
                continue
            self.log.observe(call.id, result)
            self.messages.append(Message(role="tool", content=result, tool_call_id=call.id))
        return None if submitted is None else Submission(answer=submitted.answer)

    def _remind(self, reply: ModelReply) -> Submission | None:
        text = reply.message.content
        if text.strip():
            self.last_text = text
        if reply.finish_reason == "content_filter":
            self.log.note(Code.MODEL_CONTENT_FILTER, "the provider filtered a reply")
        self.odd_replies += 1
        if self.odd_replies >= self.parameters.odd_reply_limit:
            taken = "no text was left" if self.last_text is None else "the last text is the answer"
            return self._end(
                Code.HARNESS_FORMAT,
                f"{self.odd_replies} replies in a row called no tool; {taken}",
            )
        self._say(_reminder(reply))
        return None

    def _say(self, text: str) -> None:
        self.messages.append(Message(role="user", content=text))
        self.log.user(text)

    def _end(self, code: Code, message: str, stop_reason: str | None = None) -> Submission:
        return end_with(code, message, self.log, answer=self.last_text, stop_reason=stop_reason)


def _reminder(reply: ModelReply) -> str:
    if reply.finish_reason == "length":
        why = "Your reply was cut off at the token limit before it called a tool. Be brief."
    elif reply.finish_reason == "content_filter":
        why = "Your reply was removed by the provider's content filter."
    elif not reply.message.content.strip():
        why = "Your reply was empty."
    else:
        why = "Your reply called no tool."
    return f"{why} Continue with a tool call; when the task is done, call `submit`."


COMPONENT = Component(version="1", create=ToolAgent, parameters=ToolAgentParameters)
