"""Carry out a unit: its attempts in order, each recorded the moment it ends."""

import asyncio
import logging
from collections.abc import Callable

from agentcompass.components.contracts.attempt import AttemptKey, AttemptRecord
from agentcompass.components.contracts.errors import POLICIES, AgentCompassError
from agentcompass.components.contracts.run import RunPlan
from agentcompass.components.execution.attempt import Stages, run_attempt
from agentcompass.components.execution.board import Board
from agentcompass.components.execution.desk import AttemptDesk
from agentcompass.components.execution.job import Job
from agentcompass.components.execution.parts import Parts
from agentcompass.components.execution.schedule import Unit
from agentcompass.components.results.store import RunStore

log = logging.getLogger(__name__)

TOLD_UNSCORED = 5
"""So many unscored attempts are told on the console, the rest in the log file."""


async def run_unit(
    unit: Unit, plan: RunPlan, parts: Parts, store: RunStore, board: Board, stages: Stages
) -> None:
    """Raises only what must stop the run: a failure whose policy says so, a full disk."""
    settings, succeeded = plan.request.execution, False
    for index in unit.indices:
        key = AttemptKey(task_id=unit.sample.task.id, index=index)
        if succeeded:
            record = AttemptRecord(key=key, status="skipped")
            await _save(store, unit, settings.attempts.k, record)
            board.skipped(record)
            continue
        board.started()
        ended = None
        try:
            job = Job(store.folder.root.name, key, unit.sample, settings)
            record = await run_attempt(job, parts, AttemptDesk(store, key), stages)
            await _save(store, unit, settings.attempts.k, record)
            ended = record
        finally:
            board.ended(ended)
        _tell(record, board)
        succeeded = unit.stop_at_success and record.value == 1.0
        if record.failure is not None and (policy := POLICIES[record.failure.code]).stops_run:
            message = f"{policy.meaning}: {record.failure.message}"
            raise AgentCompassError(record.failure.code, message)


def _tell(record: AttemptRecord, board: Board) -> None:
    if record.failure is None:
        log.debug("%s: scored %s", record.key, record.value)
        return
    unscored = board.progress.unscored
    level = logging.WARNING if unscored <= TOLD_UNSCORED else logging.DEBUG
    more = "; further ones are told in the run's log only" if unscored == TOLD_UNSCORED else ""
    failure = record.failure
    log.log(level, "%s unscored: %s: %s%s", record.key, failure.code, failure.message, more)


async def _save(store: RunStore, unit: Unit, planned: int, record: AttemptRecord) -> None:
    save: Callable[..., None] = store.save_record
    await asyncio.to_thread(save, unit.sample.task, planned, unit.sample.content_hash, record)
