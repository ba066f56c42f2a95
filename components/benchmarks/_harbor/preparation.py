"""A task's sandbox before the agent comes: the folders of the format, and its health."""

import asyncio
import time

from agentcompass.components.benchmarks._harbor.task_config import Healthcheck
from agentcompass.components.contracts.errors import AgentCompassError, Code
from agentcompass.components.contracts.sandbox import Environment

_FOLDERS = """
set -e
mkdir -p /logs/agent /logs/artifacts /logs/verifier
chmod 777 /logs/agent /logs/artifacts
"""


async def root_user(env: Environment) -> str | None:
    """Who may do everything; None: whoever runs commands there anyway."""
    who = await env.exec(["id", "-u"], cwd="/")
    return None if who.stdout.strip() == "0" else "root"


async def make_folders(env: Environment, root: str | None) -> None:
    """/logs/agent and /logs/artifacts, writable for all. Raises environment.setup."""
    done = await env.exec(["/bin/sh", "-c", _FOLDERS], cwd="/", user=root)
    if not done.ok:
        last = (done.stderr.strip() or "no output").splitlines()[-1]
        raise AgentCompassError(Code.ENVIRONMENT_SETUP, f"/logs cannot be made: {last[:300]}")


async def become_healthy(env: Environment, check: Healthcheck) -> None:
    """Until the command succeeds once. Raises environment.setup after `retries` failures in a
    row outside the start period."""
    started, failures = time.monotonic(), 0
    while True:
        result = await env.exec(check.command, timeout_seconds=check.timeout_sec)
        if result.ok:
            return
        starting = time.monotonic() - started < check.start_period_sec
        failures += not starting
        if failures >= check.retries:
            last = (result.stderr.strip() or result.stdout.strip() or "no output").splitlines()[-1]
            how = "took too long" if result.timed_out else f"ended with {result.exit_code}"
            raise AgentCompassError(
                Code.ENVIRONMENT_SETUP,
                f"the task's health check {how} {failures} times: {last[:300]}",
            )
        await asyncio.sleep(check.start_interval_sec if starting else check.interval_sec)
