"""mini-SWE-agent, the library, with its own agent loop and prompts.

Its DefaultAgent and the prompts of its `mini.yaml` run unchanged on our sandbox and our model
client: retries, usage, prices and keys stay in one place, its own litellm model is not used.
What differs from the library on purpose: a malformed tool call is answered with an error under
its own call id and the other calls of that reply run (the library drops the whole reply), and
the system facts in its prompt are the sandbox's, not this machine's.

`stop_reason` is one of `finished`, `step_limit`, `cost_limit`, `format`, `context_window`,
`content_filter`, `crashed`. The answer is what the agent printed when it submitted, else the
text of its last reply.
"""

import asyncio
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field, field_validator

from agentcompass.components.contracts.attempt import Submission
from agentcompass.components.contracts.errors import AgentCompassError, Code
from agentcompass.components.contracts.parameters import HarnessParameters
from agentcompass.components.contracts.protocols import AttemptLog, Component, ModelClient, Needs
from agentcompass.components.contracts.sandbox import Environment
from agentcompass.components.contracts.task import Task
from agentcompass.components.harnesses._endings import end_or_raise, end_with
from agentcompass.components.harnesses.mini_swe_agent import adapters, library
from agentcompass.components.harnesses.mini_swe_agent.bridge import Bridge

TEMPLATE_VARIABLES = frozenset(
    {"task", "cwd", "timeout", "system", "release", "version", "machine", "model_name"}
    | {"step_limit", "cost_limit", "n_model_calls", "model_cost", "elapsed_seconds"}
)


class MiniSweAgentParameters(HarnessParameters):
    """The library's own limits and prompts."""

    step_limit: Annotated[int, Field(ge=0)] = 250
    """Model calls in one attempt; 0: none."""
    cost_limit: Annotated[float, Field(ge=0)] = 3.0
    """US dollars in one attempt; 0: none. Acts only where prices are known."""
    command_timeout: Annotated[float, Field(gt=0)] = 2400
    """Seconds after which a command is killed (the library's own benchmarks use 60)."""
    max_consecutive_format_errors: Annotated[int, Field(ge=0)] = 3
    """So many replies in a row without a usable command end the attempt; 0: never."""
    system_template: str | None = None
    """Jinja template in place of the library's system message."""
    instance_template: str | None = None
    """Jinja template in place of the library's first user message; `{{task}}` is the task."""

    @field_validator("system_template", "instance_template")
    @classmethod
    def _renders(cls, template: str | None) -> str | None:
        if template is not None:
            _check_template(template)
        return template


class MiniSweAgent:
    needs = Needs(tools=True)

    def __init__(self, parameters: MiniSweAgentParameters) -> None:
        self.parameters = parameters

    async def run(
        self, task: Task, env: Environment | None, model: ModelClient, log: AttemptLog
    ) -> Submission:
        if env is None:
            raise AgentCompassError(Code.FRAMEWORK_UNEXPECTED, "mini_swe_agent runs in a sandbox")
        facts = await _system_facts(env)
        bridge = Bridge(asyncio.get_running_loop())
        try:
            ended = await bridge.run(
                lambda: _solve(self.parameters, task, env, facts, model, log, bridge)
            )
        except AgentCompassError as error:
            return end_or_raise(error, log)
        if ended.code is None:
            return Submission(answer=ended.answer)
        return end_with(ended.code, ended.message, log, answer=ended.answer)


def _solve(
    parameters: MiniSweAgentParameters,
    task: Task,
    env: Environment,
    facts: Mapping[str, str],
    model: ModelClient,
    log: AttemptLog,
    bridge: Bridge,
) -> adapters.Exit:
    """Run the library's agent to its end; in a thread of its own, for it is synchronous."""
    mini = library.load()
    config = mini.config
    environment = adapters.SandboxEnvironment(
        env,
        bridge,
        mini,
        facts,
        variables=_variables(config, task),
        timeout_seconds=parameters.command_timeout,
    )
    client = adapters.ClientModel(model, bridge, log, mini, environment)
    agent_settings = {
        "system_template": config["agent"]["system_template"],
        "instance_template": config["agent"]["instance_template"],
        **parameters.model_dump(exclude={"command_timeout"}, exclude_none=True),
    }
    return adapters.run_agent(mini, client, environment, agent_settings, task.instruction, log)


def _variables(config: Mapping[str, Any], task: Task) -> dict[str, str]:
    """What the library sets for its commands (no pagers, no progress bars); the task's win."""
    variables: dict[str, str] = config["environment"]["env"]
    return {k: v for k, v in variables.items() if k not in task.requirements.env}


async def _system_facts(env: Environment) -> dict[str, str]:
    """What the library's prompt tells of the system: `uname` of the sandbox."""
    names = ("system", "release", "version", "machine")
    result = await env.exec("for f in s r v m; do uname -$f || echo; done", timeout_seconds=60)
    lines = result.stdout.split("\n") if result.ok else []
    facts = dict(zip(names, [*lines, "", "", "", ""], strict=False))
    return {**facts, "system": facts["system"] or "Linux"}


def _check_template(template: str) -> None:
    """Raise ValueError if the template cannot be read or names an unknown variable."""
    from jinja2 import Environment as Jinja
    from jinja2 import TemplateSyntaxError, meta

    try:
        used: set[Any] = meta.find_undeclared_variables(Jinja().parse(template))
    except TemplateSyntaxError as error:
        raise ValueError(f"not a Jinja template: {error}") from error
    if unknown := sorted(used - TEMPLATE_VARIABLES):
        known = ", ".join(sorted(TEMPLATE_VARIABLES))
        raise ValueError(f"unknown variables {', '.join(unknown)}; known: {known}")


COMPONENT = Component(
    version="1",
    create=MiniSweAgent,
    parameters=MiniSweAgentParameters,
    requires=("minisweagent",),
    extra="mini-swe-agent",
)
