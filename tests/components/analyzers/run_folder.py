"""Planted attempts as the folder of a finished run."""

from collections.abc import Iterable
from itertools import groupby
from pathlib import Path

from agentcompass.components.contracts.analysis import FinishedAttempt
from agentcompass.components.contracts.task import Task
from agentcompass.components.results.paths import RunFolder
from agentcompass.components.results.store import RunStore


def finished_run(root: Path, attempts: Iterable[FinishedAttempt]) -> RunStore:
    store = RunStore(RunFolder(root))
    by_task = [(task, list(group)) for task, group in groupby(attempts, lambda a: a.task_id)]
    store.write_run({"plan": {}, "tasks": [task for task, _ in by_task]})
    for task_id, group in by_task:
        counted = [one for one in group if one.earlier_try is None]
        detail = counted[-1].detail
        records = {record.key.index: record for one in counted for record in one.detail.attempts}
        store.save_records(
            Task(id=task_id, instruction=detail.instruction),
            detail.planned,
            detail.content_hash,
            list(records.values()),
        )
        for one in group:
            if one.trajectory is not None:
                store.save_trajectory(one.record.key, one.trajectory)
    return store
