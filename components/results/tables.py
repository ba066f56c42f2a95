"""attempts.parquet: one row an attempt, for pandas and whatever else reads Parquet.

Columns have their types whatever the rows hold: none at all, or only unknown values. pandas gives
them back as `Int64`, `boolean`, `string`, `float64` and UTC timestamps. Unknown is null, never 0.
"""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from agentcompass.components.contracts.attempt import AttemptRecord, Detail, Note
from agentcompass.components.contracts.errors import POLICIES
from agentcompass.components.results.writing import clean_text, replacing

COLUMNS = {
    "task_id": "string",
    "category": "string",
    "attempt": "Int64",
    "physical": "Int64",
    "status": "string",
    "correct": "boolean",
    "score": "float64",
    "value": "float64",
    "metrics": "string",
    "stop_reason": "string",
    "failure_code": "string",
    "failure_owner": "string",
    "failure_message": "string",
    "warnings": "string",
    "timed_out": "boolean",
    "model_calls": "Int64",
    "input_tokens": "Int64",
    "cached_input_tokens": "Int64",
    "output_tokens": "Int64",
    "reasoning_tokens": "Int64",
    "cost_usd": "float64",
    "unpriced_calls": "Int64",
    "setup_seconds": "float64",
    "run_seconds": "float64",
    "collect_seconds": "float64",
    "score_seconds": "float64",
    "model_seconds": "float64",
    "waiting_seconds": "float64",
    "started_at": "datetime64[us, UTC]",
    "ended_at": "datetime64[us, UTC]",
    "harness_version": "string",
}
"""Column → its type in pandas. `metrics` is a JSON object, `warnings` are codes joined by ", ";
`value` is the primary as a number, null unless the attempt is scored."""

_ROWS_AT_ONCE = 1_000


def write_attempts(path: Path, details: Iterable[Detail]) -> None:
    """Write the table whole or not at all, holding at most 1,000 rows in memory.

    Rows follow the details, and an attempt's index within each. Raises results.write.
    """
    import pandas
    import pyarrow
    import pyarrow.parquet

    shape = pandas.DataFrame({n: pandas.Series([], dtype=kind) for n, kind in COLUMNS.items()})
    schema = pyarrow.Schema.from_pandas(shape, preserve_index=False)
    with replacing(path) as temporary, pyarrow.parquet.ParquetWriter(temporary, schema) as writer:
        for rows in _chunks(_rows(details)):
            writer.write_table(pyarrow.Table.from_pylist(rows, schema=schema))


def _chunks(rows: Iterable[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    chunk: list[dict[str, Any]] = []
    for row in rows:
        chunk.append(row)
        if len(chunk) == _ROWS_AT_ONCE:
            yield chunk
            chunk = []
    if chunk:
        yield chunk


def _rows(details: Iterable[Detail]) -> Iterator[dict[str, Any]]:
    for detail in details:
        for record in sorted(detail.attempts, key=lambda record: record.key.index):
            yield _row(detail, record)


def _row(detail: Detail, record: AttemptRecord) -> dict[str, Any]:
    verdict = record.verdict if record.status == "scored" else None
    failure, submission = record.failure, record.submission
    texts, _ = clean_text(
        {
            "task_id": detail.task_id,
            "category": detail.category,
            "status": record.status,
            "metrics": json.dumps(verdict.metrics, sort_keys=True) if verdict else None,
            "stop_reason": submission.stop_reason if submission else None,
            "failure_code": failure.code if failure else None,
            "failure_owner": POLICIES[failure.code].owner if failure else None,
            "failure_message": failure.message if failure else None,
            "warnings": ", ".join(sorted({note.code.value for note in _notes(record)})),
            "harness_version": record.harness_version,
        }
    )
    return {
        **texts,
        "attempt": record.key.index,
        "physical": record.key.physical,
        "correct": verdict.correct if verdict else None,
        "score": verdict.score if verdict else None,
        "value": record.value if record.status == "scored" else None,
        "timed_out": record.timed_out,
        "model_calls": record.usage.calls,
        **record.usage.model_dump(exclude={"calls", "uncounted_calls"}),
        **record.times.model_dump(),
        "started_at": record.started_at,
        "ended_at": record.ended_at,
    }


def _notes(record: AttemptRecord) -> tuple[Note, ...]:
    return record.notes + (record.verdict.notes if record.verdict else ())
