"""Analyzers over a run's folder: what is written, in which order, and what a broken one does."""

import gc
import json
import logging
import weakref
from pathlib import Path
from typing import Any

import pytest

from agentcompass.components.contracts.analysis import AnalyzerParameters, FinishedAttempt, Report
from agentcompass.components.contracts.attempt import AttemptKey
from agentcompass.components.contracts.errors import Code, RequestError
from agentcompass.components.contracts.protocols import Component
from agentcompass.components.contracts.run import ExecutionSettings
from agentcompass.components.contracts.trajectory import Trajectory
from agentcompass.components.execution.advice import to_do
from agentcompass.components.execution.analysis import analyze, analyze_run, check_params
from agentcompass.components.registry import registry
from agentcompass.components.results.masking import Masker
from agentcompass.components.results.store import RunStore
from tests.cases.strict_json import strict
from tests.components.analyzers.corpus import planted
from tests.components.analyzers.formats import Run, Say, attempt
from tests.components.analyzers.run_folder import finished_run

FIELDS = {"kind", "task_id", "attempt", "earlier_try", "steps", "evidence", "severity", "checked"}
LOST = (Code.ENVIRONMENT_LOST, "the container died")
KEY = "ghp_q7Zk3mV9xT2bN8cR5wY1aL6dF4gH0jKsPeUo"


class Broken:
    """Fails at its second attempt."""

    def __init__(self, parameters: AnalyzerParameters) -> None:
        self.seen = 0

    def look_at(self, attempt: FinishedAttempt) -> None:
        self.seen += 1
        if self.seen == 2:
            raise KeyError("step 7")

    def report(self) -> Report:
        raise AssertionError("never asked")


@pytest.fixture
def one_is_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    load = registry.load

    def loading(family: Any, component_id: str, *rest: Any) -> Component:
        if component_id == "limits":
            return Component(version="1", create=Broken, parameters=AnalyzerParameters)
        return load(family, component_id, *rest)

    monkeypatch.setattr(registry, "load", loading)


def test_every_analyzer_has_its_file_and_one_page_leads_with_what_to_do(tmp_path: Path) -> None:
    store = finished_run(tmp_path / "run", [one for each in planted() for one in each.all_tries])
    done = analyze(store)
    assert (done.failed, done.unreadable) == ({}, [])
    folder = tmp_path / "run" / "analysis"
    names = set(registry.listings("analyzers"))
    assert {path.stem for path in folder.glob("*.json")} == names
    for name in names:
        document = strict((folder / f"{name}.json").read_text(encoding="utf-8"))
        assert (document["schema_version"], document["analyzer"]) == (1, name)
        for finding in document["findings"]:
            assert set(finding) == FIELDS
    page = (folder / "analysis.md").read_text(encoding="utf-8")
    headings = [line for line in page.splitlines() if line.startswith("#")]
    assert headings[:2] == ["# Analysis", "## What to do"]
    assert page.index("1. **Rotate the keys") < page.index("2. **")
    assert "## history_peeking" in headings


def test_no_half_of_a_key_is_left_where_a_broken_analyzers_reason_is_cut(
    tmp_path: Path, one_is_broken: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def breaks(self: Broken, attempt: FinishedAttempt) -> None:
        raise KeyError(f"{'x' * 470} {KEY}")

    monkeypatch.setattr(Broken, "look_at", breaks)
    store = finished_run(tmp_path / "run", [attempt("t1", "codex", [Run("ls")])])
    done = analyze(RunStore(store.folder, Masker([KEY])))
    assert KEY[:8] not in done.failed["limits"]
    assert len(done.failed["limits"]) < 600


def test_the_most_costly_comes_first(tmp_path: Path) -> None:
    attempts = [
        *(attempt(f"lost-{n}", "codex", [Run("ls")], failure=LOST) for n in range(3)),
        *(
            attempt(f"steps-{n}", "codex", [Run("ls")], stop_reason="step_limit", value=n > 0)
            for n in range(5)
        ),
        attempt("key", "codex", [Run("cat .netrc", KEY)], value=True),
        attempt("cheat", "codex", [Run("echo 1 > /logs/verifier/reward.txt")], value=True),
        attempt("vain", "codex", [Run("echo 1 > /tests/x")], value=False),
    ]
    listed = to_do(analyze(finished_run(tmp_path / "run", attempts)))
    told = [(item.action.split(" ")[0], item.attempts, item.points) for item in listed]
    assert told == [("Rotate", 1, 0), ("Repair", 3, 3), ("Do", 2, 1), ("Raise", 5, 1)]
    page = (tmp_path / "run/analysis/analysis.md").read_text(encoding="utf-8")
    assert "Up to 3 points were lost here (3 attempts)." in page
    assert "Up to 1 point may be undeserved (2 attempts)." in page
    assert "Up to 1 point was lost here (5 attempts)." in page


def test_a_broken_analyzer_is_named_and_harms_nothing(
    tmp_path: Path, one_is_broken: None, caplog: pytest.LogCaptureFixture
) -> None:
    attempts = [attempt(f"t{n}", "codex", [Run("pip install x", "ok")]) for n in range(3)]
    with caplog.at_level(logging.WARNING):
        done = analyze(finished_run(tmp_path / "run", attempts))
    assert done.failed == {"limits": "at t1 #1: KeyError: 'step 7'"}
    assert "analyzer limits failed at t1 #1" in caplog.text
    folder = tmp_path / "run" / "analysis"
    assert not (folder / "limits.json").exists()
    page = (folder / "analysis.md").read_text(encoding="utf-8")
    assert "- analyzer `limits` failed at t1 #1: KeyError: 'step 7'" in page
    assert len(json.loads((folder / "network.json").read_bytes())["findings"]) == 3


def test_a_damaged_trajectory_is_left_out_and_named(tmp_path: Path) -> None:
    attempts = [attempt(f"t{n}", "codex", [Run("pip install x", "ok")]) for n in range(2)]
    store = finished_run(tmp_path / "run", attempts)
    store.folder.trajectory(attempts[0].record.key).write_text("{", encoding="utf-8")
    done = analyze(store)
    assert len(done.unreadable) == 1
    assert [f.task_id for f in done.reports["network"].findings] == ["t1"]
    page = (store.folder.analysis / "analysis.md").read_text(encoding="utf-8")
    assert "trajectory.json: not JSON" in page
    assert "1 without a trajectory" in page


def test_one_trajectory_is_held_at_a_time_and_read_once(tmp_path: Path) -> None:
    attempts = [attempt(f"t{n:02}", "codex", [Run("ls"), Say("x")]) for n in range(30)]
    store = finished_run(tmp_path / "run", attempts)
    read: list[AttemptKey] = []
    alive: list[weakref.ref[Trajectory]] = []
    most = 0

    class Watched(RunStore):
        def read_trajectory(self, key: AttemptKey) -> Trajectory | None:
            nonlocal most
            gc.collect()
            most = max(most, sum(ref() is not None for ref in alive))
            read.append(key)
            trajectory = super().read_trajectory(key)
            if trajectory is not None:
                alive.append(weakref.ref(trajectory))
            return trajectory

    analyze(Watched(store.folder))
    assert len(read) == len(set(read)) == 30
    assert most <= 3


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"limit": {}}, "analysis-params.limit: no such analyzer; did you mean 'limits'?"),
        ({"analyzers": ["timin"]}, "analysis-params.timin: no such analyzer; did you mean 'tim"),
        ({"analyzers": []}, "analysis-params.analyzers: selects nothing"),
        ({"analyzers": "limits"}, "analysis-params.analyzers: is not a list of ids"),
        ({"limits": 3}, "analysis-params.limits: is not an object"),
        ({"repetition": {"calls": 1}}, "analysis-params.repetition.calls: input should be greater"),
        ({"repetition": {"cals": 4}}, "analysis-params.repetition.cals: unknown key; did you mean"),
    ],
)
def test_wrong_parameters_are_refused_in_one_line(params: dict[str, Any], message: str) -> None:
    with pytest.raises(RequestError) as raised:
        check_params(params)
    assert str(raised.value).startswith(message)


def test_selection_and_parameters_reach_the_analyzers(tmp_path: Path) -> None:
    store = finished_run(tmp_path / "run", [attempt("t", "codex", [Run("ls", "a")] * 3)])
    done = analyze(store, {"analyzers": ["repetition"], "repetition": {"calls": 3}})
    assert list(done.reports) == ["repetition"]
    assert [f.kind for f in done.reports["repetition"].findings] == ["same_call"]


def test_after_a_run_it_can_be_off_and_never_raises(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = finished_run(tmp_path / "run", [attempt("t", "codex", [Run("ls")])])
    analyze_run(store, ExecutionSettings(enable_analysis=False))
    assert not store.folder.analysis.exists()
    store.folder.detail("t").write_text("{", encoding="utf-8")
    analyze_run(store, ExecutionSettings())
    assert "the analysis failed" in caplog.text


def test_an_empty_run_says_so(tmp_path: Path) -> None:
    done = analyze(finished_run(tmp_path / "run", []))
    assert done.failed == {}
    page = (tmp_path / "run/analysis/analysis.md").read_text(encoding="utf-8")
    assert "Nothing: no attempt has ended." in page


def test_the_example_of_the_docs_runs(tmp_path: Path) -> None:
    page = (Path(__file__).parents[3] / "docs" / "analysis.md").read_text(encoding="utf-8")
    code = page.split("```python\n")[1].split("```")[0]
    space: dict[str, Any] = {}
    exec(code, space)
    component = space["COMPONENT"]
    analyzer = component.create(component.parameters())
    analyzer.look_at(attempt("t", "codex", [Run("ls")]))
    report = analyzer.report()
    assert [finding.task_id for finding in report.findings] == ["t"]


def test_the_docs_list_every_analyzer() -> None:
    page = (Path(__file__).parents[3] / "docs" / "analysis.md").read_text(encoding="utf-8")
    table = page.split("## What they look for")[1].split("\n\n")[1]
    rows = [line.split("`")[1] for line in table.splitlines() if line.startswith("| `")]
    assert sorted(rows) == sorted(registry.listings("analyzers"))
