"""What happened and what it cost: failures and notes by code, usage, times."""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import NamedTuple

from agentcompass.components.contracts.attempt import AttemptRecord, Note, PhaseTimes
from agentcompass.components.contracts.errors import POLICIES, Code, Owner
from agentcompass.components.contracts.usage import Usage
from agentcompass.components.results.metrics_record import CodeCount, Example, TakenOver
from agentcompass.components.results.observations import failure_of

_EXAMPLES = 3
_MESSAGE_LENGTH = 200


class Accounts(NamedTuple):
    failures: tuple[CodeCount, ...]
    failures_by_owner: dict[Owner, int]
    warnings: tuple[CodeCount, ...]
    taken_over: tuple[TakenOver, ...]
    own_usage: Usage | None
    usage: Usage
    cost_partial: bool
    tokens_partial: bool
    times: PhaseTimes
    started_at: datetime | None
    ended_at: datetime | None


def accounts(records: Sequence[AttemptRecord]) -> Accounts:
    """Of attempts in a fixed order (by task id and index)."""
    failures = _count(records, _failures)
    owners = [owner for item in failures for owner in [item.owner] * item.attempts]
    usage = _usage([record.usage for record in records])
    origins = Counter(record.origin for record in records if record.origin is not None)
    return Accounts(
        failures=failures,
        failures_by_owner={owner: owners.count(owner) for owner in Owner if owner in owners},
        warnings=_count(records, _notes),
        taken_over=tuple(TakenOver(run_id=run, attempts=n) for run, n in sorted(origins.items())),
        own_usage=_usage([r.usage for r in records if r.origin is None]) if origins else None,
        usage=usage,
        cost_partial=usage.cost_partial,
        tokens_partial=usage.input_tokens is not None and usage.uncounted_calls > 0,
        times=_times([record.times for record in records]),
        started_at=min((r.started_at for r in records if r.started_at), default=None),
        ended_at=max((r.ended_at for r in records if r.ended_at), default=None),
    )


def _failures(record: AttemptRecord) -> list[Note]:
    return [failure_of(record)] if record.status == "unscored" else []


def _notes(record: AttemptRecord) -> list[Note]:
    return [*record.notes, *(record.verdict.notes if record.verdict else ())]


def _count(
    records: Iterable[AttemptRecord], notes_of: Callable[[AttemptRecord], list[Note]]
) -> tuple[CodeCount, ...]:
    """By code, the most frequent first; an attempt counts once for each code."""
    found: dict[Code, list[tuple[AttemptRecord, Note]]] = {}
    for record in records:
        first = {note.code: note for note in reversed(notes_of(record))}
        for code, note in first.items():
            found.setdefault(code, []).append((record, note))
    counts = [
        CodeCount(
            code=code,
            owner=POLICIES[code].owner,
            severity=POLICIES[code].severity,
            meaning=POLICIES[code].meaning,
            attempts=len(cases),
            tasks=len({record.key.task_id for record, _ in cases}),
            examples=tuple(_example(record, note) for record, note in cases[:_EXAMPLES]),
        )
        for code, cases in found.items()
    ]
    return tuple(sorted(counts, key=lambda item: (-item.attempts, item.code.value)))


def _example(record: AttemptRecord, note: Note) -> Example:
    first_line = next(iter(note.message.strip().splitlines()), "")
    cut = first_line if len(first_line) <= _MESSAGE_LENGTH else first_line[:_MESSAGE_LENGTH] + "…"
    return Example(task_id=record.key.task_id, index=record.key.index, message=cut)


def _usage(usages: Sequence[Usage]) -> Usage:
    total = sum((usage.model_copy(update={"cost_usd": None}) for usage in usages), Usage())
    # Money is summed exactly rounded: the total must not depend on the order of attempts.
    costs = [usage.cost_usd for usage in usages if usage.cost_usd is not None]
    return total.model_copy(update={"cost_usd": math.fsum(costs) if costs else None})


def _times(times: Sequence[PhaseTimes]) -> PhaseTimes:
    sums = {}
    for name in PhaseTimes.model_fields:
        known = [value for item in times if (value := getattr(item, name)) is not None]
        sums[name] = math.fsum(known) if known or name == "waiting_seconds" else None
    return PhaseTimes.model_validate(sums)
