"""Tries that do not count: read in one place, told apart from attempts, never mixed with them."""

import json
from pathlib import Path
from typing import Any

import pytest

from agentcompass.components.contracts.analysis import AnalyzerParameters, FinishedAttempt, Report
from agentcompass.components.contracts.attempt import Checkpoint, Note, Submission
from agentcompass.components.contracts.errors import Code, Phase
from agentcompass.components.contracts.protocols import Component
from agentcompass.components.execution.advice import to_do
from agentcompass.components.execution.analysis import analyze
from agentcompass.components.execution.finished_attempts import finished_attempts
from agentcompass.components.registry import registry
from agentcompass.components.results.store import RunStore
from tests.components.analyzers.formats import STARTED, Run, attempt
from tests.components.analyzers.run_folder import finished_run

KEY = "ghp_q7Zk3mV9xT2bN8cR5wY1aL6dF4gH0jKsPeUo"
LOST = (Code.ENVIRONMENT_LOST, "the container died")
CRASHED = (Code.GRADER_CRASHED, "no verdict")


def one_made_again(root: Path) -> RunStore:
    """Its first try read a key and was lost; three other attempts took one try."""
    return finished_run(
        root / "run",
        [
            attempt("a", "codex", [Run("ls", "x")], tries=[LOST], value=True),
            attempt("a", "codex", [Run("cat .netrc", KEY)], earlier_try=1),
            *(attempt(f"b{n}", "codex", [Run("ls", "x")], value=True) for n in range(3)),
        ],
    )


def test_a_finding_names_the_try_and_the_page_keeps_it_apart(tmp_path: Path) -> None:
    done = analyze(one_made_again(tmp_path))
    findings = json.loads((done.folder / "leaked_keys.json").read_bytes())["findings"]
    assert [(f["task_id"], f["attempt"], f["earlier_try"]) for f in findings] == [("a", 1, 1)]
    page = (done.folder / "analysis.md").read_text(encoding="utf-8")
    assert page.startswith("# Analysis\n\n4 attempts, 0 without a score; 1 earlier try that does")
    section = page.split("## leaked_keys\n\n")[1].split("\n## ")[0]
    assert section == (
        "In earlier tries, which do not count:\n\n"
        "- **1 try: `key`** (serious)\n"
        "  - `a #1`, try 1, step 2: `in result: ghp_…`\n"
    )


def test_a_key_read_in_an_earlier_try_is_to_be_rotated_too(tmp_path: Path) -> None:
    first = to_do(analyze(one_made_again(tmp_path)))[0]
    assert first.urgent
    assert first.action.startswith("Rotate the keys")
    assert "`a #1`, try 1" in first.reasons[0]


def test_cheating_in_a_try_that_does_not_count_makes_no_point_undeserved(tmp_path: Path) -> None:
    cheat = [Run("echo 1 > /logs/verifier/reward.txt")]
    attempts = [
        attempt("a", "codex", [Run("ls", "x")], tries=[LOST], value=True),
        attempt("a", "codex", cheat, earlier_try=1),
    ]
    done = analyze(finished_run(tmp_path / "run", attempts))
    kinds = {f.kind: f.earlier_try for f in done.reports["tampering"].findings}
    assert kinds == {"verifier_written": 1}
    assert [item for item in to_do(done) if item.stake == "won"] == []


def test_the_failure_table_counts_tries_apart_from_attempts(tmp_path: Path) -> None:
    attempts = [
        attempt("a", "codex", [Run("ls")], failure=LOST, tries=[LOST, LOST]),
        attempt("b", "codex", [Run("ls")], tries=[CRASHED]),
    ]
    done = analyze(finished_run(tmp_path / "run", attempts))
    report = done.reports["failures"]
    counted = {
        code: (said["attempts"], said["earlier_tries"])
        for code, said in report.numbers["codes"].items()
    }
    assert counted == {"environment.lost": (1, 2), "grader.crashed": (0, 1)}
    assert "| environment | `environment.lost` | 1 | 2 | no score |" in report.markdown
    assert "| grader | `grader.crashed` | 0 | 1 | no score |" in report.markdown
    told = {(f.kind, f.task_id, f.earlier_try, f.severity) for f in report.findings}
    assert told == {
        ("environment.lost", "a", None, "serious"),
        ("environment.lost", "a", 1, "info"),
        ("environment.lost", "a", 2, "info"),
        ("grader.crashed", "b", 1, "info"),
    }
    assert [(a.attempts, a.stake) for a in report.advice] == [((("a", 1),), "lost")]


def test_no_number_of_the_attempts_counts_a_try(tmp_path: Path) -> None:
    with_try = analyze(one_made_again(tmp_path))
    without = [
        attempt("a", "codex", [Run("ls", "x")], tries=[LOST], value=True),
        *(attempt(f"b{n}", "codex", [Run("ls", "x")], value=True) for n in range(3)),
    ]
    alone = analyze(finished_run(tmp_path / "other", without))
    for name, report in with_try.reports.items():
        assert report.numbers == alone.reports[name].numbers, name
    assert with_try.attempts.values == alone.attempts.values


def test_an_analyzer_that_breaks_at_a_try_keeps_what_it_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Broken:
        def __init__(self, parameters: AnalyzerParameters) -> None:
            self.seen = 0

        def look_at(self, attempt: FinishedAttempt) -> None:
            if attempt.earlier_try:
                raise KeyError("no verdict")
            self.seen += 1

        def report(self) -> Report:
            return Report(numbers={"seen": self.seen})

    load = registry.load

    def loading(family: Any, component_id: str, *rest: Any) -> Component:
        if component_id == "limits":
            return Component(version="1", create=Broken, parameters=AnalyzerParameters)
        return load(family, component_id, *rest)

    monkeypatch.setattr(registry, "load", loading)
    done = analyze(one_made_again(tmp_path))
    assert done.failed == {"limits": "at a #1, try 1: KeyError: 'no verdict'"}
    assert done.reports["limits"].numbers == {"seen": 4}


def test_what_a_try_left_is_read_and_what_is_damaged_is_named(tmp_path: Path) -> None:
    counted = attempt("a", "codex", [Run("ls")], tries=[LOST, LOST, LOST])
    second = attempt("a", "codex", [Run("ls")], earlier_try=2)
    store = finished_run(tmp_path / "run", [counted, second])
    first = counted.record.key.model_copy(update={"physical": 1})
    warned = Note(code=Code.HARNESS_STEP_LIMIT, phase=Phase.RUN, message="50 steps")
    store.save_checkpoint(
        Checkpoint(
            key=first,
            content_hash="0",
            submission=Submission(answer=f"the key is {KEY}"),
            notes=(warned,),
            started_at=STARTED,
            ended_at=STARTED,
        )
    )
    store.folder.trajectory(second.record.key).write_text("{", encoding="utf-8")
    (store.folder.attempt(first) / "retries" / "notes").mkdir()
    unreadable: list[str] = []
    read = [
        (one.earlier_try, one.record.failure is not None, one.record.notes, len(one.steps))
        for one in finished_attempts(store, unreadable)
    ]
    assert read == [
        (None, False, (), 2),
        (1, True, (warned,), 0),
        (2, True, (), 0),
        (3, True, (), 0),
    ]
    assert len(unreadable) == 1
    assert "retries/2/trajectory.json: not JSON" in unreadable[0]
    done = analyze(store)
    said = {(f.kind, f.earlier_try) for name in done.reports for f in done.reports[name].findings}
    assert {("key", 1), ("steps", 1)} <= said


def test_a_try_that_was_judged_again_is_no_other_try(tmp_path: Path) -> None:
    """The grader failed, and judged the same work again: one try, one earlier failure."""
    one = attempt("a", "codex", [Run("cat .netrc", KEY)])
    failed = Note(code=Code.GRADER_CRASHED, phase=Phase.SCORE, message="no verdict")
    record = one.record.model_copy(update={"earlier_failures": (failed,)})
    detail = one.detail.model_copy(update={"attempts": (record,)})
    store = finished_run(tmp_path / "run", [FinishedAttempt(detail, record, one.trajectory)])
    done = analyze(store)
    assert done.attempts.earlier_tries == 0
    assert [f.earlier_try for f in done.reports["leaked_keys"].findings] == [None]
    assert done.reports["failures"].numbers["codes"]["grader.crashed"]["earlier_tries"] == 1


def test_whose_failure_is_whose_is_said_only_where_it_is_known(tmp_path: Path) -> None:
    """Three tries, and the reason for one of them: it may be that of either."""
    one = attempt("a", "codex", [Run("ls")], tries=[LOST])
    key = one.record.key.model_copy(update={"physical": 3})
    record = one.record.model_copy(update={"key": key})
    detail = one.detail.model_copy(update={"attempts": (record,)})
    tries = [attempt("a", "codex", [Run("ls")], earlier_try=number) for number in (1, 2)]
    counted = FinishedAttempt(detail, record, one.trajectory)
    store = finished_run(tmp_path / "run", [counted, *tries])
    read = [(each.earlier_try, each.record.failure) for each in finished_attempts(store, [])]
    assert read == [(None, None), (1, None), (2, None)]
    report = analyze(store).reports["failures"]
    assert report.numbers["codes"]["environment.lost"]["earlier_tries"] == 1


def test_attempts_that_disagree_are_no_finding_of_a_try(tmp_path: Path) -> None:
    first = attempt("a", "codex", [Run("ls")], index=1, value=True)
    second = attempt(
        "a", "codex", [Run("ls")], index=2, value=False, tries=[LOST], others=[first.record]
    )
    lost = attempt("a", "codex", [Run("ls")], index=2, earlier_try=1)
    done = analyze(finished_run(tmp_path / "run", [second, lost]))
    found = [(f.kind, f.earlier_try) for f in done.reports["flaky_tasks"].findings]
    assert found == [("retried", None), ("disagree", None)]
