"""pass@k is not available for a task with fewer scores than k, an empty one included (C36)."""

import asyncio
import json
from pathlib import Path

import pandas
import pytest

from tests.cases.rig import UnderWay, ask, measure

OUTCOMES = ("00ee", "1000", "1e01", "----")
"""By question and attempt: right, wrong, failed, never ended."""


def questions(folder: Path, count: int) -> Path:
    """A gsm8k file whose answers are 0, 1, 2, …"""
    path = folder / "questions.jsonl"
    rows = [{"question": f"What is {n}+0?", "answer": f"#### {n}"} for n in range(count)]
    path.write_text("\n".join(map(json.dumps, rows)))
    return path


def script(ids: list[str]) -> dict[str, object]:
    failed = {"error": {"code": "model.unavailable", "message": "planted"}}
    endless = {"content": "#### 3", "delay_seconds": 600}
    tasks = {}
    for right, (task_id, row) in enumerate(zip(ids, OUTCOMES, strict=True)):
        answers = {"1": f"#### {right}", "0": "#### -1", "e": failed, "-": endless}
        tasks[task_id] = {"attempts": {n: [answers[o]] for n, o in enumerate(row, start=1)}}
    return {"tasks": tasks}


def test_a_run_cut_off_before_its_last_task(tmp_path: Path) -> None:
    async def watch(run: UnderWay) -> None:
        while run.progress.scored + run.progress.unscored < 12:
            await asyncio.sleep(0.02)
        run.stop.set()

    params = {"data_path": str(questions(tmp_path, 4))}
    first = measure(ask(tmp_path, "gsm8k", "idle", benchmark_params=params))
    ids = [sample.task.id for sample in first.samples]
    request = ask(
        tmp_path,
        "gsm8k",
        "openai_chat",
        model="scripted",
        k=4,
        benchmark_params=params,
        model_params={"script": script(ids)},
    )
    ran = measure(request, watch=watch)
    assert ran.ending == "interrupted"
    # As after `kill -9`: of the attempts under way nothing is left.
    ran.store.folder.detail(ids[3]).unlink(missing_ok=True)
    metrics = ran.conclude()
    found = {m.name: m for m in metrics.metrics}
    assert set(found) == {"avg@4", "pass@1", "pass@2", "pass@3", "pass@4", "pass^4"}

    # By hand: pass@1 and the average over what is scored; pass@4 only where four scores are.
    over = {name: (m.scored.value, m.scored.n_tasks) for name, m in found.items()}
    assert over["pass@1"] == pytest.approx(((0 + 1 / 4 + 2 / 3) / 3, 3))
    assert over["avg@4"] == pytest.approx(over["pass@1"])
    assert over["pass@4"] == (1.0, 1)
    assert over["pass^4"] == (0.0, 1)
    assert over["pass@2"] == pytest.approx(((0 + 1 / 2 + 1) / 3, 3))
    assert found["pass@4"].planned.value == 0.5
    coverage = metrics.coverage
    assert (coverage.scored, coverage.unscored, coverage.missing) == (9, 3, 4)
    assert [(m.task_id, m.indexes) for m in coverage.missing_attempts] == [(ids[3], (1, 2, 3, 4))]

    # The same numbers in the file, the summary and the table; each says over how many tasks.
    stored = json.loads(ran.store.folder.metrics_json.read_text())
    assert {m["name"]: m["scored"]["value"] for m in stored["metrics"]} == {
        name: value for name, (value, _) in over.items()
    }
    lines = [line for line in ran.summary.splitlines() if line.startswith("| pass@4 | scored |")]
    assert [cell.strip() for line in lines for cell in line.split("|")[3:4]] == ["1"]
    assert [cell.strip() for line in lines for cell in line.split("|")[7:9]] == ["1", "4"]
    table = pandas.read_parquet(ran.store.folder.attempts_parquet)
    per_task = table[table["status"] == "scored"].groupby("task_id").size().to_dict()
    assert per_task == {ids[0]: 2, ids[1]: 4, ids[2]: 3}


def test_no_task_with_k_scores_is_not_available_and_no_zero(tmp_path: Path) -> None:
    params = {"data_path": str(questions(tmp_path, 2))}
    failed = {"error": {"code": "model.unavailable"}}
    odd = {"rules": [{"match": "What", "replies": [failed]}]}
    half = {"rules": [{"match": "What is 0", "replies": ["#### 0"]}, *odd["rules"]]}

    def scored(script: object) -> dict[str, tuple[float | None, str | None]]:
        request = ask(
            tmp_path,
            "gsm8k",
            "openai_chat",
            model="scripted",
            k=2,
            benchmark_params=params,
            model_params={"script": script},
        )
        return {m.name: (m.scored.value, m.scored.note) for m in measure(request).metrics.metrics}

    assert set(scored(odd).values()) == {(None, "no score")}
    assert {value for value, _ in scored(half).values()} == {1.0}
