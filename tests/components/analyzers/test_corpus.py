"""Every analyzer on planted attempts of six harness formats: its hits and misses are exact."""

import random
from collections import defaultdict
from typing import Any

import pytest

from agentcompass.components.contracts.analysis import Finding, FinishedAttempt, Report
from agentcompass.components.contracts.trajectory import (
    AtifToolCall,
    Observation,
    ObservationResult,
    Step,
)
from agentcompass.components.execution.analysis import analyze
from agentcompass.components.registry import registry
from tests.components.analyzers.corpus import Planted, planted
from tests.components.analyzers.formats import attempt
from tests.components.analyzers.run_folder import finished_run

ANALYZERS = tuple(registry.listings("analyzers"))


@pytest.fixture(scope="module")
def corpus() -> list[Planted]:
    return planted()


@pytest.fixture(scope="module")
def reports(corpus: list[Planted], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Report]:
    """Through a run's folder, as a user's run is read."""
    folder = tmp_path_factory.mktemp("corpus") / "run"
    done = analyze(finished_run(folder, [one for each in corpus for one in each.all_tries]))
    assert (done.failed, done.unreadable) == ({}, [])
    return done.reports


def said(reports: dict[str, Report]) -> dict[str, set[str]]:
    """Name of the planted attempt → what was said of it."""
    found: dict[str, set[str]] = defaultdict(set)
    for name, report in reports.items():
        for finding in report.findings:
            of_try = f"@{finding.earlier_try}" if finding.earlier_try else ""
            found[finding.task_id.split("/", 1)[1]].add(f"{name}:{finding.kind}{of_try}")
    return found


def test_hits_and_misses_are_exact(corpus: list[Planted], reports: dict[str, Report]) -> None:
    found = said(reports)
    wrong = {
        one.name: (sorted(one.found - found[one.name]), sorted(found[one.name] - one.found))
        for one in corpus
        if found[one.name] != one.found
    }
    assert wrong == {}, "name: (not found, found too much)"


def test_precision_and_recall(corpus: list[Planted], reports: dict[str, Report]) -> None:
    """Against what is true of the attempts, cases beyond the rules included."""
    found = said(reports)
    print(f"\n{len(corpus)} attempts\n{'analyzer':<18} hits  wrong  missed  precision  recall")
    for name in ANALYZERS:
        hits = wrong = missed = 0
        for one in corpus:
            true = {t for t in (one.found - one.wrong) | one.missed if t.startswith(f"{name}:")}
            told = {t for t in found[one.name] if t.startswith(f"{name}:")}
            hits += len(told & true)
            wrong += len(told - true)
            missed += len(true - told)
        precision, recall = hits / max(1, hits + wrong), hits / max(1, hits + missed)
        print(f"{name:<18} {hits:>4} {wrong:>6} {missed:>7} {precision:>10.2f} {recall:>7.2f}")
        assert hits > 0, f"nothing planted for {name}"
        assert precision >= 0.9
        assert recall >= 0.9


def test_each_analyzer_meets_good_and_bad_of_several_formats(corpus: list[Planted]) -> None:
    styles = {one.attempt.trajectory.agent.name for one in corpus if one.attempt.trajectory}
    assert len(styles) >= 5
    assert len(corpus) >= 60
    assert sum(not one.found for one in corpus) >= 20


def test_a_finding_names_steps_and_evidence(reports: dict[str, Report]) -> None:
    used = {
        f.task_id.split("/", 1)[1]: f
        for f in reports["history_peeking"].findings
        if f.kind == "used"
    }
    shown: Finding = used["fix taken from a commit, codex"]
    assert shown.attempt == 1
    assert shown.steps == (3, 4)
    assert "git show 9f3c2ab17" in shown.evidence
    assert "return self.width * self.height" in shown.evidence
    assert shown.severity == "serious"


def test_no_key_is_repeated(reports: dict[str, Report]) -> None:
    for report in reports.values():
        assert all("q7Zk3mV9" not in f.evidence for f in report.findings)
        assert "q7Zk3mV9" not in report.markdown
        assert all("q7Zk3mV9" not in advice.reason for advice in report.advice)


def test_odd_trajectories_break_no_analyzer() -> None:
    """What other programs' converters may write: any arguments, results without a call, …"""
    chance = random.Random(11)
    odd: list[Any] = [
        None, True, -1, 1e300, "", " ", "\ud83d", "'", '{"output": 3}', "{", "[]", "$(", "/tests",
        [], ["bash", "-lc", "git reflog"], [1, None], {}, {"new_string": 1}, "*** Begin Patch",
        "a\0b", "https://[::1", "git@", "curl https://[x", "exit code 99999999999", "<returncode>",
        "git log --all",
    ]  # fmt: skip
    names = ["command", "path", "content", "edits", "url", "old_string", "keystrokes", "input", "x"]
    analyzers = [(name, registry.load("analyzers", name)) for name in ANALYZERS]
    made = [(name, one.create(one.parameters())) for name, one in analyzers]
    for number in range(300):
        steps = []
        for step_id in range(1, chance.randint(1, 8)):
            picked = [o for o in odd if isinstance(o, str)]
            calls = [
                AtifToolCall(
                    tool_call_id=chance.choice(["a", "b"]),
                    function_name=chance.choice(["shell", "", "WebFetch"]),
                    arguments={chance.choice(names): chance.choice(odd) for _ in range(3)},
                )
                for _ in range(chance.randint(0, 3))
            ]
            results = tuple(
                ObservationResult(
                    source_call_id=chance.choice(["a", None]),
                    content=chance.choice([None, *picked]),
                )
                for _ in range(chance.randint(0, 2))
            )
            steps.append(
                Step(
                    step_id=step_id,
                    source=chance.choice(["agent", "agent", "user", "system"]),
                    message=chance.choice(picked),
                    timestamp=chance.choice([None, "now", "2026-01-01T00:00:00Z", "2026-01-01"]),
                    tool_calls=tuple(calls) or None,
                    observation=Observation(results=results) if results else None,
                    extra=chance.choice(
                        [
                            None,
                            {"malformed_calls": chance.choice(odd)},
                            {"latency_seconds": "3"},
                            {"finish_reason": 3},
                            {"latency_seconds": 2},
                        ]
                    ),  # fmt: skip
                )
            )
        base = attempt(f"t{number}", "codex", [], answer=chance.choice([None, "{", "x"]))
        trajectory = base.trajectory
        assert trajectory is not None
        definitions = chance.choice([None, ({"name": "shell", "parameters": {"required": 3}},)])
        agent = trajectory.agent.model_copy(update={"tool_definitions": definitions})
        changed = trajectory.model_copy(update={"steps": tuple(steps), "agent": agent})
        for _, analyzer in made:
            analyzer.look_at(FinishedAttempt(base.detail, base.record, changed))
    for _, analyzer in made:
        analyzer.report()
