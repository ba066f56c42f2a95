import itertools
import threading
from datetime import datetime
from pathlib import Path

import pytest

from agentcompass.components.contracts.attempt import AttemptKey
from agentcompass.components.contracts.errors import RequestError
from agentcompass.components.results.paths import (
    RunFolder,
    check_results_dir,
    check_run_id,
    check_run_name,
    namespace,
    reserve,
)

NOON = datetime(2026, 1, 2, 12, 0, 5)


def test_a_run_lives_under_model_benchmark_harness(tmp_path):
    assert namespace(tmp_path, "", "m", "b", "h") == tmp_path / "m__b__h"
    assert namespace(tmp_path, "nightly", "m", "b", "h") == tmp_path / "nightly" / "m__b__h"


def test_models_with_any_name_get_folders_of_their_own_inside_the_results(tmp_path):
    models = ["orgA/m", "orgB/m", "m:latest", "/abs/path/ckpt-1", "../m", "a__b", "a/b", "a_b"]
    models += ["L" * 180, "L" * 179 + "M", "m", "M"]
    folders = [namespace(tmp_path, "", model, "bench", "h") for model in models]
    assert all(folder.parent == tmp_path for folder in folders)
    assert len({str(folder).lower() for folder in folders}) == len(models)


def test_the_joint_of_names_is_unambiguous(tmp_path):
    triples = [("a__b", "c", "d"), ("a", "b__c", "d"), ("a_", "b", "d"), ("a", "_b", "d")]
    folders = {namespace(tmp_path, "", *triple) for triple in triples}
    assert len(folders) == len(triples)


def test_the_longest_namespace_fits_a_file_system(tmp_path):
    path = namespace(tmp_path, "", "M" * 300, "B" * 300, "H" * 300)
    path.mkdir()
    assert len(path.name) <= 200


@pytest.mark.parametrize("name", ["a/b", "..", ".", "a\\b", "/", "a b", "m__b__h"])
def test_a_run_name_that_is_no_folder_name_is_refused(name, tmp_path):
    with pytest.raises(RequestError, match="^run-name: "):
        namespace(tmp_path, name, "m", "b", "h")
    check_run_name("")


def test_a_run_id_that_is_no_folder_name_is_refused():
    check_run_id("")
    check_run_id("my-run.1")
    with pytest.raises(RequestError, match="^run-id: "):
        check_run_id("../other")


def test_a_given_run_id_is_used_once(tmp_path):
    place = tmp_path / "m__b__h"
    assert reserve(place, "first", NOON) == RunFolder(place / "first")
    with pytest.raises(RequestError, match="^run-id: 'first' exists already"):
        reserve(place, "first", NOON)


def test_run_ids_made_within_one_second_differ(tmp_path):
    ids = [reserve(tmp_path, "", NOON).run_id for _ in range(3)]
    assert ids == ["20260102_120005", "20260102_120005_2", "20260102_120005_3"]


def test_run_ids_made_at_once_never_meet(tmp_path):
    found: list[str] = []
    barrier = threading.Barrier(8)

    def start() -> None:
        barrier.wait()
        found.extend(reserve(tmp_path / "new" / "deep", "", NOON).run_id for _ in range(5))

    threads = [threading.Thread(target=start) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(found)) == 40


def test_reserving_under_a_file_names_the_file(tmp_path):
    (tmp_path / "results").write_text("a file")
    with pytest.raises(RequestError, match="^results-dir: .*results is not a folder"):
        reserve(tmp_path / "results" / "m__b__h", "", NOON)


def test_a_results_dir_is_checked_without_creating_it(tmp_path):
    check_results_dir(tmp_path / "not" / "yet")
    assert list(tmp_path.iterdir()) == []


def test_a_results_dir_that_is_a_file_is_refused(tmp_path):
    (tmp_path / "file").write_text("x")
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    for bad in ("file", "file/deeper", "dangling", "loop", "nul\0", "x" * 300):
        with pytest.raises(RequestError, match="^results-dir: "):
            check_results_dir(tmp_path / bad)


def test_a_results_dir_that_cannot_be_written_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("os.access", lambda path, mode: False)  # tests may run as root
    with pytest.raises(RequestError, match="^results-dir: .* not writable"):
        check_results_dir(tmp_path / "new")


def test_every_physical_attempt_has_files_of_its_own():
    folder = RunFolder(Path("run"))
    keys = [
        AttemptKey(task_id=task, index=index, physical=physical)
        for task, index, physical in itertools.product(("a", "A", "a/b"), (1, 2, 12), (1, 2, 3))
    ]
    makers = [folder.checkpoint, folder.trajectory, folder.artifacts, folder.verification]
    makers += [folder.attempt, folder.attempt_log]
    for make in makers:
        assert len({str(make(key)).lower() for key in keys}) == len(keys)


def test_the_tree_is_the_documented_one(tmp_path):
    folder = RunFolder(tmp_path)
    first = AttemptKey(task_id="t", index=2)
    again = AttemptKey(task_id="t", index=2, physical=3)
    shown = {
        str(path.relative_to(tmp_path))
        for path in (
            folder.run_json,
            folder.progress_json,
            folder.metrics_json,
            folder.summary_md,
            folder.attempts_parquet,
            folder.analysis,
            folder.report_html,
            folder.log,
            folder.detail("t"),
            folder.checkpoint(first),
            folder.trajectory(first),
            folder.artifacts(first),
            folder.verification(first),
            folder.attempt_log(first),
            folder.checkpoint(again),
        )
    }
    assert shown == {
        "run.json",
        "progress.json",
        "metrics.json",
        "summary.md",
        "attempts.parquet",
        "analysis",
        "report.html",
        "logs/run.log",
        "tasks/t/detail.json",
        "tasks/t/attempt-2/checkpoint.json",
        "tasks/t/attempt-2/trajectory.json",
        "tasks/t/attempt-2/artifacts",
        "tasks/t/attempt-2/verification",
        "tasks/t/attempt-2/log.txt",
        "tasks/t/attempt-2/retries/3/checkpoint.json",
    }
