"""Carry out a unit's next attempt, and record it the moment it ends."""

import asyncio
import logging
from dataclasses import replace

from agentcompass.components.contracts.attempt import (
    AttemptKey,
    AttemptRecord,
    Checkpoint,
    Note,
)
from agentcompass.components.contracts.errors import POLICIES, AgentCompassError, Code, Phase
from agentcompass.components.contracts.waiting import to_its_end
from agentcompass.components.execution.attempt import run_attempt
from agentcompass.components.execution.desk import AttemptDesk
from agentcompass.components.execution.open_run import OpenRun
from agentcompass.components.execution.retry import is_retried, pause_seconds
from agentcompass.components.execution.schedule import Later, Unit

log = logging.getLogger(__name__)

CUT_OFF = {
    "interrupted": Code.RUN_CANCELLED,
    "timed_out": Code.RUN_TIMEOUT,
    "failed": Code.RUN_STOPPED,
}
"""Why the schedule cancels what runs → how its attempts are recorded."""

TOLD_UNSCORED = 5
"""So many unscored attempts are told on the console, the rest in the log file."""


async def run_unit(unit: Unit, run: OpenRun) -> Later | None:
    """What comes after this attempt: a further try of it, the unit's next one, or nothing.

    Raises only what must stop the run: a failure whose policy says so, a full disk.
    """
    place = unit.key.task_id, unit.key.index
    if place in run.adopted:
        if run.rescored_from is None:
            await run.stages.recall(run.job(unit.sample, unit.key))
        return await _next(unit, run, run.adopted[place])
    if run.rescored_from is not None and not (unit.checkpoint or place in run.checkpoints):
        return await _next(unit, run, None)  # nothing to judge, and no agent runs here
    if unit.stop_at_success and _solved_later(unit, run):
        await _skip(unit, run, unit.indices[:1])
        return await _next(unit, run, None)
    record, checkpoint = await _attempt(unit, run)
    failed_tries = len(unit.failures) + 1
    settings = run.plan.request.execution
    try:  # also what is tried again: if the run ends before that, this is how the attempt stands
        await _save(unit, run, record)
    except asyncio.CancelledError:  # saved all the same
        run.board.ended(unit.key, record)
        raise
    if record.failure and is_retried(record.failure, failed_tries, settings):
        seconds = pause_seconds(failed_tries, settings)
        run.board.pauses(unit.key, seconds, record)
        log.info("%s again in %.0f s: %s", unit.key, seconds, record.failure.message)
        return Later(_again(unit, record, checkpoint, run), seconds)
    run.board.ended(unit.key, record)
    run.slots.needs(run.board.progress.running + run.board.progress.waiting)
    _tell(record, run)
    if record.failure and (policy := POLICIES[record.failure.code]).stops_run:
        message = f"{policy.meaning}: {record.failure.message}"
        raise AgentCompassError(record.failure.code, message)
    return await _next(unit, run, record.value)


async def _attempt(unit: Unit, run: OpenRun) -> tuple[AttemptRecord, Checkpoint | None]:
    """The attempt's record, earlier tries included, and what the agent left if it came so far."""
    checkpoint = unit.checkpoint or run.checkpoints.get((unit.key.task_id, unit.key.index))
    if checkpoint is not None:
        unit = replace(unit, physical=checkpoint.key.physical)
    elif not unit.failures:
        unit = _first_try(unit, run)
    async with run.slots.held():
        run.board.started(unit.key)
        try:
            desk = AttemptDesk(run.store, unit.key, checkpoint)
            job = run.job(unit.sample, unit.key)
            record = await run_attempt(job, run.parts, desk, run.stages)
        except asyncio.CancelledError as error:
            record = _cut_off(unit, run, desk, error)
            await _save(unit, run, record)
            run.board.ended(unit.key, record)
            raise
        except BaseException:
            run.board.ended(unit.key, None)
            raise
    return _with_earlier_tries(unit, run, record), desk.checkpoint


def _first_try(unit: Unit, run: OpenRun) -> Unit:
    """The first of this execution of the run: an earlier one's tries are paid for, too."""
    before = run.before.get((unit.key.task_id, unit.key.index))
    physical, spent = 1, unit.spent
    if before is not None:
        physical, spent = before.key.physical + 1, before.usage
    number = run.next_try(unit.key.model_copy(update={"physical": physical})).physical
    return replace(unit, physical=number, spent=spent)


def _with_earlier_tries(unit: Unit, run: OpenRun, record: AttemptRecord) -> AttemptRecord:
    """What they cost and why they failed; of an attempt judged again also when it was made."""
    place = unit.key.task_id, unit.key.index
    before = run.before.get(place)
    update: dict[str, object] = {
        "usage": unit.spent + record.usage,
        "earlier_failures": unit.failures,
    }
    if before is not None:
        update["earlier_failures"] = (*_failures(before, run), *unit.failures)
        if place in run.checkpoints:  # what the agent's tries cost is known
            update["usage"] = before.usage
    if run.rescored_from is not None:
        update["origin"] = (before.origin if before else None) or run.rescored_from
        if before is not None:
            update["ended_at"] = before.ended_at
    return record.model_copy(update=update)


def _failures(before: AttemptRecord, run: OpenRun) -> tuple[Note, ...]:
    """Of the tries until now. A failure to judge that is judged again in a rescored run is not
    one of its own."""
    if before.failure is None or run.rescored_from is not None:
        return before.earlier_failures
    return (*before.earlier_failures, before.failure)


def _cut_off(
    unit: Unit, run: OpenRun, desk: AttemptDesk, error: asyncio.CancelledError
) -> AttemptRecord:
    """The record of an attempt that was ended from outside: unscored, with what it cost."""
    code = CUT_OFF.get(str(error.args[0] if error.args else ""), Code.RUN_CANCELLED)
    left, usage = desk.checkpoint, desk.spent()
    record = AttemptRecord(
        key=unit.key,
        status="unscored",
        failure=Note(code=code, phase=desk.phase, message=POLICIES[code].meaning),
        notes=tuple(desk.notes),
        submission=left.submission if left else None,
        usage=usage,
    )
    return _with_earlier_tries(unit, run, record)


def _again(unit: Unit, record: AttemptRecord, checkpoint: Checkpoint | None, run: OpenRun) -> Unit:
    """The same attempt once more: only its judging if the agent's part stands."""
    assert record.failure is not None
    failures = (*unit.failures, record.failure)
    judge_only = record.failure.phase is Phase.SCORE and checkpoint is not None
    only_judges = run.rescored_from is not None
    if only_judges or (judge_only and run.parts.verification(unit.sample.task) != "reuse"):
        return replace(unit, failures=failures, checkpoint=checkpoint)
    run.checkpoints.pop((unit.key.task_id, unit.key.index), None)
    following = record.key.model_copy(update={"physical": record.key.physical + 1})
    return replace(
        unit,
        physical=run.next_try(following).physical,
        failures=failures,
        spent=record.usage,
        checkpoint=None,
    )


async def _next(unit: Unit, run: OpenRun, value: float | None) -> Later | None:
    rest = unit.indices[1:]
    if not rest:
        return None
    if not (unit.stop_at_success and value == 1.0):
        return Later(Unit(unit.sample, rest, unit.stop_at_success))
    await _skip(unit, run, rest)
    return None


def _solved_later(unit: Unit, run: OpenRun) -> bool:
    """A further attempt of the task stands, and is a success: this one is not needed."""
    return any(run.adopted.get((unit.key.task_id, index)) == 1.0 for index in unit.indices[1:])


async def _skip(unit: Unit, run: OpenRun, indices: tuple[int, ...]) -> None:
    """Record that these are not needed; what is scored stands."""
    task_id = unit.key.task_id
    for index in indices:
        if (task_id, index) in run.adopted:
            continue
        record = AttemptRecord(key=AttemptKey(task_id=task_id, index=index), status="skipped")
        if before := run.before.get((task_id, index)):
            tried = {"usage": before.usage, "earlier_failures": _failures(before, run)}
            record = record.model_copy(update=tried)
        await _save(unit, run, record)
        run.board.skipped(record)


def _tell(record: AttemptRecord, run: OpenRun) -> None:
    if record.failure is None:
        log.debug("%s: scored %s", record.key, record.value)
        return
    unscored = run.board.progress.unscored
    level = logging.WARNING if unscored <= TOLD_UNSCORED else logging.DEBUG
    more = "; further ones are told in the run's log only" if unscored == TOLD_UNSCORED else ""
    failure = record.failure
    log.log(level, "%s unscored: %s: %s%s", record.key, failure.code, failure.message, more)


async def _save(unit: Unit, run: OpenRun, record: AttemptRecord) -> None:
    """On disk when it returns, also when it is cancelled: numbers are made after the last one."""
    k = run.plan.request.execution.attempts.k
    sample = run.as_it_was.get(unit.key.task_id, unit.sample)
    save = run.store.save_record
    await to_its_end(asyncio.to_thread(save, sample.task, k, sample.content_hash, record))
