"""The limits a run shares with every other run on the same Prefect API."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

from agentcompass.flows.live import LiveRun
from agentcompass.flows.pacing import OpeningPace
from agentcompass.flows.slots import ProviderSlots
from agentcompass.flows.together import Gated


@asynccontextmanager
async def shared_limits(run: LiveRun) -> AsyncIterator[None]:
    """Within this block attempts wait for a slot of their provider, and openings for their turn."""
    provider, runtime = run.plan.environment.id, run.plan.request.runtime
    wanted = min(run.plan.request.execution.task_concurrency, run.board.progress.waiting)
    qps = runtime.env_open_qps.get(provider, run.parts.environments.capabilities.open_qps)
    named = provider in runtime.env_open_qps
    limit = runtime.provider_limits.get(provider)
    async with (
        ProviderSlots(provider, limit, wanted) as slots,
        OpeningPace(provider, qps, named) as pace,
    ):
        gate = run.session.gate
        run.open.slots = Gated(gate, slots) if gate else slots
        run.open.parts = replace(run.open.parts, pace=pace)
        yield
