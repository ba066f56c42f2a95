"""What the API knows of a run beside its state, for its retry and for programs that ask."""

import asyncio
import logging
from typing import Any
from uuid import UUID

import prefect.runtime.flow_run
from prefect.client.orchestration import get_client

from agentcompass.flows import retried
from agentcompass.flows.cancelled import api_answers
from agentcompass.flows.live import LiveRun

log = logging.getLogger(__name__)

TRIES = 3
PAUSE_SECONDS = 1.0


async def label_begun(run: LiveRun) -> None:
    """Where its folder is."""
    await _label({"run_dir": str(run.store.folder.root), retried.KEY: retried.key()})


async def label_ended(run: LiveRun) -> None:
    """How it ended: `submit --wait` and `list runs` read it."""
    outcome, metrics = run.outcome, getattr(run, "metrics", None)
    score = metrics.headline.value if metrics else None
    await _label_surely(
        {
            "run_dir": outcome.run_dir,
            retried.KEY: retried.key(),
            "exit_code": outcome.exit_code,
            "planned": outcome.planned,
            "scored": outcome.scored,
            **({} if score is None else {"score": score}),
        }
    )


async def _label_surely(values: dict[str, Any]) -> None:
    """Tried again when the API fails at just this moment: nothing says it later."""
    for left in reversed(range(TRIES)):
        if await _label(values) or not left:
            return
        await asyncio.sleep(PAUSE_SECONDS)


async def _label(values: dict[str, Any]) -> bool:
    """Whether the API has them now."""
    labels = {f"agentcompass.{name}": value for name, value in values.items()}
    if not await api_answers():
        return False
    try:
        async with get_client() as client:
            await client.update_flow_run_labels(UUID(prefect.runtime.flow_run.id), labels)
    except Exception as error:  # whatever the API may answer: the files say it, too
        log.warning("the flow run is not labelled: %s", error)
        return False
    return True
