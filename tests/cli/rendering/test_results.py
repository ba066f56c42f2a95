"""The table at the end holds all a user asks first."""

from datetime import UTC, datetime, timedelta

from agentcompass.cli.rendering.results import result_lines
from agentcompass.components.contracts.attempt import (
    AttemptKey,
    AttemptRecord,
    Detail,
    Note,
    Verdict,
)
from agentcompass.components.contracts.errors import Code, Phase
from agentcompass.components.contracts.usage import Usage
from agentcompass.components.results.metrics import compute_metrics

START = datetime(2026, 1, 1, tzinfo=UTC)


def record(task: str, **values: object) -> AttemptRecord:
    return AttemptRecord.model_validate(
        {
            "key": AttemptKey(task_id=task, index=1),
            "started_at": START,
            "ended_at": START + timedelta(seconds=90),
            **values,
        }
    )


def test_score_interval_coverage_blame_cost_and_time() -> None:
    slow = Note(code=Code.HARNESS_TIMEOUT, phase=Phase.RUN, message="3600 s")
    lost = Note(code=Code.ENVIRONMENT_LOST, phase=Phase.RUN, message="gone")
    usage = Usage(calls=2, input_tokens=1000, output_tokens=10, cost_usd=0.25)
    records = [
        record("a", status="scored", verdict=Verdict(correct=True), usage=usage),
        record(
            "b", status="scored", verdict=Verdict(correct=False, metrics={"f1": 0.5}), notes=(slow,)
        ),
        record("c", status="unscored", failure=lost),
    ]
    details = [
        Detail(
            task_id=one.key.task_id, instruction="?", content_hash="0", planned=1, attempts=(one,)
        )
        for one in records
    ]
    lines = result_lines(compute_metrics(details, ["a", "b", "c"]))
    text = "\n".join(lines)
    assert lines[0].split() == ["native@1", "0.3333"]
    assert "Wilson" in text
    assert "2 of 3 attempts scored" in text
    assert "1 attempt (counted as 0): environment.lost" in text
    assert "fault: environment)" in text
    assert "$0.25" in text
    assert "1,000 in" in text
    assert "1 min 30 s" in text
    assert any(line.split()[:2] == ["f1", "0.5"] for line in lines)
    assert any(line.startswith("warning") and "harness.timeout" in line for line in lines)
