"""Our sandbox and model client in the shapes mini-SWE-agent's agent expects.

Everything here runs in the agent's thread; what is awaited goes over the bridge.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agentcompass.components.contracts.errors import AgentCompassError, Code
from agentcompass.components.contracts.model import (
    Message,
    ModelReply,
    ModelRequest,
    ToolCall,
    ToolDefinition,
)
from agentcompass.components.contracts.protocols import AttemptLog, ModelClient
from agentcompass.components.contracts.sandbox import Environment
from agentcompass.components.harnesses._text import shorten
from agentcompass.components.harnesses.mini_swe_agent.bridge import Bridge
from agentcompass.components.harnesses.mini_swe_agent.library import Library

SUBMIT_MARKER = "COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"

# Detached: the library's logger would put whole conversations into the run's debug log.
_SILENT = logging.Logger("mini-swe-agent", level=logging.CRITICAL)


@dataclass(frozen=True)
class Exit:
    """How the library's agent ended."""

    code: Code | None
    """The warning to note; None: it submitted."""
    message: str
    answer: str | None


def run_agent(
    mini: Library,
    model: "ClientModel",
    environment: "SandboxEnvironment",
    settings: Mapping[str, Any],
    instruction: str,
    log: AttemptLog,
) -> Exit:
    """Run the library's agent. Failures of model and sandbox rise; its own become an Exit."""
    log.agent_version(mini.version)
    log.tools(model.tools)
    try:
        agent = mini.agent_class(model, environment, **settings)
        agent.logger = _SILENT
        ended = agent.run(instruction)
    except Exception as error:  # the library may fail in any way
        if isinstance(error, AgentCompassError) or error is environment.bridge.failure:
            raise
        reason = shorten(" ".join(str(error).split()), 500)
        return Exit(Code.HARNESS_CRASHED, f"mini-swe-agent: {type(error).__name__}: {reason}", None)
    finally:
        environment.record_unseen(log)
    return _exit(ended, agent.n_calls, settings, model.last_text)


def _exit(
    ended: Mapping[str, Any], calls: int, settings: Mapping[str, Any], last_text: str | None
) -> Exit:
    status, submission = ended.get("exit_status"), ended.get("submission") or ""
    if status == "Submitted":
        return Exit(None, "", submission if submission.strip() else last_text)
    if status == "RepeatedFormatError":
        limit = settings["max_consecutive_format_errors"]
        message = f"{limit} replies in a row held no usable command"
        return Exit(Code.HARNESS_FORMAT, message, last_text)
    if status == "LimitsExceeded" and 0 < settings["step_limit"] <= calls:
        message = f"step limit {settings['step_limit']} reached"
        return Exit(Code.HARNESS_STEP_LIMIT, message, None)
    if status == "LimitsExceeded":
        message = f"cost limit ${settings['cost_limit']:g} reached"
        return Exit(Code.HARNESS_COST_LIMIT, message, None)
    return Exit(Code.HARNESS_CRASHED, f"mini-swe-agent ended with {status!r}", None)


class SandboxEnvironment:
    """The library's Environment protocol over an open sandbox."""

    def __init__(
        self,
        env: Environment,
        bridge: Bridge,
        mini: Library,
        facts: Mapping[str, str],
        *,
        variables: Mapping[str, str],
        timeout_seconds: float,
    ) -> None:
        self.config: dict[str, Any] = {}
        self.bridge = bridge
        self.unseen: list[tuple[str, str]] = []
        """Call id and output of commands whose results the model was not shown yet."""
        self._env, self._mini = env, mini
        self._variables, self._timeout_seconds = variables, timeout_seconds
        self._template_vars = {"cwd": env.workdir, "timeout": timeout_seconds, **facts}

    def execute(self, action: dict[str, Any], cwd: str = "") -> dict[str, Any]:
        """Run one command; raises the library's Submitted when it prints the marker first."""
        if "problem" in action:
            return {"output": "", "returncode": -1, "exception_info": action["problem"]}
        try:
            result = self.bridge.call(
                lambda: self._env.exec(
                    action["command"],
                    cwd=cwd or None,
                    env=self._variables,
                    timeout_seconds=self._timeout_seconds,
                    merge_stderr=True,
                )
            )
        except (OSError, ValueError) as error:  # a command that cannot even be started
            result, problem = None, f"{type(error).__name__}: {error}"
        else:
            problem = f"the command timed out after {self._timeout_seconds:g} seconds"
        output: dict[str, Any] = {
            "output": result.stdout if result else "",
            "returncode": -1,
            "exception_info": f"An error occurred while executing the command: {problem}",
        }
        if result is not None and not result.timed_out:
            output |= {"returncode": result.exit_code, "exception_info": ""}
        shown: str = output["output"] or output["exception_info"]
        self.unseen.append((action["tool_call_id"], shown))
        self._check_submitted(output)
        if result is not None and result.stdout_dropped_bytes:
            # The library's template elides the middle, where the sandbox's own marker stands.
            output["output"] += f"\n[… {result.stdout_dropped_bytes} bytes dropped in all …]"
        return output

    def get_template_vars(self, **extra: Any) -> dict[str, Any]:
        """Facts of the sandbox only: nothing of this process's environment."""
        return {**self._template_vars, **extra}

    def serialize(self) -> dict[str, Any]:
        return {}

    def record_unseen(self, log: AttemptLog) -> None:
        for call_id, output in self.unseen:
            log.observe(call_id, output)
        self.unseen.clear()

    def _check_submitted(self, output: Mapping[str, Any]) -> None:
        """The library's rule: the first line of a successful command's output is the marker."""
        first, *rest = output["output"].lstrip().splitlines(keepends=True) or [""]
        if first.strip() == SUBMIT_MARKER and output["returncode"] == 0:
            submission = "".join(rest)
            raise self._mini.exceptions.Submitted(
                {
                    "role": "exit",
                    "content": submission,
                    "extra": {"exit_status": "Submitted", "submission": submission},
                }
            )


class ClientModel:
    """The library's Model protocol over our client. Message dicts carry our Message in `extra`."""

    def __init__(
        self,
        model: ModelClient,
        bridge: Bridge,
        log: AttemptLog,
        mini: Library,
        environment: SandboxEnvironment,
    ) -> None:
        function = mini.tool_calls.BASH_TOOL["function"]
        self.tools = (ToolDefinition.model_validate(function),)
        self.config: dict[str, Any] = {}
        self.last_text: str | None = None
        """Of the latest reply, if it had any."""
        self._model, self._bridge, self._log, self._mini = model, bridge, log, mini
        self._environment = environment
        self._observation_template: str = mini.config["model"]["observation_template"]
        self._format_error_template: str = mini.config["model"]["format_error_template"]

    def query(self, messages: list[dict[str, Any]]) -> dict[str, Any]:
        """One reply with its runnable `actions`; FormatError, counted by the agent, if it has none.

        A call that cannot be run becomes an action with a `problem` and no command.
        """
        request = ModelRequest(messages=tuple(_message(m) for m in messages), tools=self.tools)
        reply = self._bridge.call(lambda: self._model.complete(request))
        self._log.agent(reply)
        self.last_text = reply.message.content if reply.message.content.strip() else None
        cost = reply.usage.cost_usd or 0.0  # unknown: the library's limit cannot count it
        if not reply.message.tool_calls:
            text = self._format_error(
                reply,
                "No tool calls found in the response. "
                "Every response MUST include at least one tool call.",
            )
            self._log.user(text)
            raise self._mini.exceptions.FormatError(
                {"role": "user", "content": text, "extra": {"cost": cost}}
            )
        actions = [self._action(call, reply) for call in reply.message.tool_calls]
        answer = {
            "role": "assistant",
            "content": reply.message.content,
            "extra": {"actions": actions, "cost": cost, "message": reply.message},
        }
        if all("problem" in action for action in actions):
            errors = self.format_observation_messages(answer, [])
            raise self._mini.exceptions.FormatError(answer, *errors)
        return answer

    def format_message(self, **message: Any) -> dict[str, Any]:
        self._bridge.check()
        if message["role"] == "system":
            self._log.system(message["content"])
        elif message["role"] == "user":
            self._log.user(message["content"])
        return message

    def format_observation_messages(
        self,
        message: Mapping[str, Any],
        outputs: list[dict[str, Any]],
        template_vars: Mapping[str, Any] | None = None,
    ) -> list[dict[str, Any]]:
        """Tool results as the library renders them, and a problem for each call not run."""
        self._bridge.check()
        actions = message["extra"]["actions"]
        rendered = self._mini.tool_calls.format_toolcall_observation_messages(
            actions=actions,
            outputs=outputs,
            observation_template=self._observation_template,
            template_vars=template_vars,
        )
        self._environment.unseen.clear()
        results = []
        for action, result in zip(actions, rendered, strict=True):
            content, call_id = action.get("problem", result["content"]), action["tool_call_id"]
            self._log.observe(call_id, content)
            ours = Message(role="tool", content=content, tool_call_id=call_id)
            results.append({"role": "tool", "content": content, "extra": {"message": ours}})
        return results

    def get_template_vars(self, **extra: Any) -> dict[str, Any]:
        return {"model_name": self._model.name, **extra}

    def serialize(self) -> dict[str, Any]:
        return {}

    def _action(self, call: ToolCall, reply: ModelReply) -> dict[str, Any]:
        if (problem := _problem(call)) is not None:
            text = self._format_error(reply, problem, has_tool_calls=True)
            return {"problem": text, "tool_call_id": call.id}
        assert call.arguments is not None
        return {"command": call.arguments["command"], "tool_call_id": call.id}

    def _format_error(self, reply: ModelReply, error: str, *, has_tool_calls: bool = False) -> str:
        from jinja2 import StrictUndefined, Template

        template = Template(self._format_error_template, undefined=StrictUndefined)
        text: str = template.render(
            error=error,
            actions=[],
            has_tool_calls=has_tool_calls,
            finish_reason=reply.finish_reason,
        )
        return text


def _message(message: Mapping[str, Any]) -> Message:
    ours = message.get("extra", {}).get("message")
    if isinstance(ours, Message):
        return ours
    return Message(role=message["role"], content=message["content"])


def _problem(call: ToolCall) -> str | None:
    """Why a call cannot be run as sent, in the library's words where it has them."""
    if call.arguments is None:
        return f"Error parsing tool call arguments: {shorten(call.problem or '', 300)}."
    if call.name != "bash":
        return f"Unknown tool {shorten(call.name, 100)!r}."
    if "command" not in call.arguments:
        return "Missing 'command' argument in bash tool call."
    command = call.arguments["command"]
    if not isinstance(command, str):
        return f"The 'command' argument must be a string, not {type(command).__name__}."
    if "\0" in command or any("\ud800" <= char <= "\udfff" for char in command):
        return "The 'command' argument holds a NUL character or half a surrogate pair."
    return None
