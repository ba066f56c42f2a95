"""The gate that the requests of one launch share."""

import asyncio

from agentcompass.components.contracts.run import Choice, ExecutionSettings, ModelSpec, RunRequest
from agentcompass.flows.together import together


def asked(task_concurrency: int) -> RunRequest:
    return RunRequest(
        benchmark=Choice(id="quickstart"),
        harness=Choice(id="oracle"),
        model=ModelSpec(id="scripted"),
        execution=ExecutionSettings(task_concurrency=task_concurrency),
    )


def test_a_deployed_launch_has_one_gate_as_wide_as_its_widest_request() -> None:
    gates = [member.session.gate for member in together([asked(2), asked(3), asked(1)]).members]
    gate = gates[0]
    assert gate is not None
    assert gates == [gate] * 3

    async def filled() -> list[bool]:
        full = []
        for _ in range(3):
            full.append(gate.locked())
            await gate.acquire()
        return [*full, gate.locked()]

    assert asyncio.run(filled()) == [False, False, False, True]
