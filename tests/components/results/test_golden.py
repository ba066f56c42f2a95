"""Stored records of every version stay readable. Golden files are written once, never edited.

When a stored model changes: raise its version, add an upgrade, write a new golden file with
`python -m tests.components.results.test_golden` from the repository's root, keep the old one.
"""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pydantic import BaseModel

from agentcompass.components.contracts.attempt import Checkpoint, Detail
from agentcompass.components.contracts.progress import Progress
from agentcompass.components.contracts.run import RunPlan
from agentcompass.components.contracts.trajectory import Trajectory
from agentcompass.components.contracts.usage import Usage
from agentcompass.components.execution.judged_again import Change, Rescored
from agentcompass.components.results.metrics import compute_metrics
from agentcompass.components.results.metrics_record import Metrics
from agentcompass.components.results.reading import read_document, read_record
from agentcompass.components.results.upgrades import Kind
from agentcompass.components.results.writing import to_json
from tests.components.results.records import (
    detail,
    full_checkpoint,
    full_detail,
    full_trajectory,
    record,
)
from tests.components.results.test_run_record import document, plan

GOLDEN = Path(__file__).parents[2] / "golden"


def full_metrics() -> Metrics:
    details = [full_detail(), detail("a", 1, 0, 1, category="alg"), detail("b", 1, 1, 1)]
    planned = {d.task_id: d.category for d in details} | {"never": None}
    details.append(detail("taken", 1, 0, 1).model_copy(update={"attempts": (TAKEN,)}))
    return compute_metrics(details, planned | {"taken": None}, k=3)


TAKEN = record("taken", 1, 1, origin="20260101_000000")


def full_progress() -> Progress:
    start = datetime(2026, 1, 1, tzinfo=UTC)
    return Progress(
        planned=50,
        running=8,
        pausing=2,
        scored=14,
        unscored=6,
        skipped=1,
        taken_over=4,
        value_sum=8.0,
        score=0.4,
        interval95=(0.25, 0.75),
        unscored_by_owner={"environment": 4, "model": 2},
        usage=Usage(calls=30, input_tokens=12_000, output_tokens=345, cost_usd=0.5),
        expected_seconds_left=252.0,
        started_at=start,
        updated_at=start + timedelta(seconds=75),
    )


def full_rescored() -> Rescored:
    changed = Change(task_id="a", attempt=2, before=None, after=1.0)
    return Rescored(run_dir="/r/20260101_000000", judged=3, unjudged=1, kept=2, changed=(changed,))


RECORDS: dict[str, tuple[Kind, type[BaseModel], Callable[[], BaseModel]]] = {
    "checkpoint-2.json": ("checkpoint", Checkpoint, full_checkpoint),
    "detail-2.json": ("detail", Detail, full_detail),
    "metrics-2.json": ("metrics", Metrics, full_metrics),
    "progress-2.json": ("progress", Progress, full_progress),
    "rescored-1.json": ("rescored", Rescored, full_rescored),
    "trajectory-ATIF-v1.8.json": ("trajectory", Trajectory, full_trajectory),
}


def progress_1() -> Progress:
    added = ("pausing", "taken_over", "score", "interval95", "expected_seconds_left")
    return Progress(**full_progress().model_dump(exclude={*added}))


def checkpoint_1() -> Checkpoint:
    return full_checkpoint().model_copy(update={"image": None})


def detail_1() -> Detail:
    whole = full_detail()
    attempts = [attempt.model_copy(update={"image": None}) for attempt in whole.attempts]
    return whole.model_copy(update={"attempts": tuple(attempts)})


def metrics_1() -> Metrics:
    details = [full_detail(), detail("a", 1, 0, 1, category="alg"), detail("b", 1, 1, 1)]
    planned = {d.task_id: d.category for d in details} | {"never": None}
    return compute_metrics(details, planned, k=3)


OLDER: dict[str, tuple[Kind, type[BaseModel], Callable[[], BaseModel]]] = {
    "checkpoint-1.json": ("checkpoint", Checkpoint, checkpoint_1),
    "detail-1.json": ("detail", Detail, detail_1),
    "metrics-1.json": ("metrics", Metrics, metrics_1),
    "progress-1.json": ("progress", Progress, progress_1),
}
ALL = RECORDS | OLDER
RUN = "run-1.json"
"""No model: a document with a plan in it."""


@pytest.mark.parametrize("name", ALL)
def test_a_golden_record_reads_as_what_was_written(name):
    kind, model, make = ALL[name]
    assert read_record(GOLDEN / name, kind, model) == make()


@pytest.mark.parametrize("name", RECORDS)
def test_a_current_record_is_written_byte_for_byte_as_ever(name):
    kind, model, make = RECORDS[name]
    golden = (GOLDEN / name).read_bytes()
    assert _written(make()) == golden
    assert _written(read_record(GOLDEN / name, kind, model)) == golden


def test_a_golden_run_reads_as_what_was_written():
    run = read_document(GOLDEN / RUN, "run")
    assert RunPlan.model_validate(run.pop("plan")) == plan()
    expected = {**document(), "schema_version": 1}
    del expected["plan"]
    assert run == expected


def test_every_golden_file_is_tested():
    assert {path.name for path in GOLDEN.glob("*.json")} == {*ALL, RUN}


def _written(record: BaseModel | None) -> bytes:
    return to_json(record, omit_none=isinstance(record, Trajectory))


if __name__ == "__main__":
    for name, (_, _, make) in RECORDS.items():
        if not (GOLDEN / name).exists():
            (GOLDEN / name).write_bytes(_written(make()))
    if not (GOLDEN / RUN).exists():
        (GOLDEN / RUN).write_bytes(to_json({"schema_version": 1, **document()}))
