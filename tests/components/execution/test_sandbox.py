import asyncio
from dataclasses import replace
from pathlib import Path

from agentcompass.components.contracts.attempt import AttemptKey
from agentcompass.components.contracts.run import ExecutionSettings
from agentcompass.components.contracts.sandbox import Capture
from agentcompass.components.environments.host_process import HostProcess, HostProcessParameters
from agentcompass.components.execution.job import Job
from agentcompass.components.execution.sandbox import AgentSandbox
from tests.standins.parts import parts, sample, says_yes


def captured(tmp_path: Path, limits: dict[str, float]) -> Capture:
    settings = ExecutionSettings.model_validate({"artifact_limits": limits})

    async def run() -> Capture:
        provider = HostProcess(HostProcessParameters(temp_dir=str(tmp_path)))
        job = Job("run", AttemptKey(task_id="t1", index=1), sample(), settings)
        async with AgentSandbox(replace(parts(says_yes), environments=provider), job) as sandbox:
            env = await sandbox.open()
            await env.exec("for n in 1 2 3 4; do head -c 400000 /dev/zero > file$n; done")
            return await env.capture(".")

    return asyncio.run(run())


def test_the_users_artifact_limits_hold_and_what_is_over_is_named(tmp_path: Path) -> None:
    assert len(captured(tmp_path, {}).files) == 4
    few = captured(tmp_path, {"max_files": 3})
    assert (len(few.files), len(few.left_out)) == (3, 1)
    small = captured(tmp_path, {"max_mb": 1})
    assert (len(small.files), len(small.left_out)) == (2, 2)
    assert all(":" in line for line in small.left_out)
