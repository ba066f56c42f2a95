import errno
import json
import random
import threading
import tracemalloc

import pytest

from agentcompass.components.contracts.attempt import (
    AttemptKey,
    AttemptRecord,
    Submission,
    Verdict,
)
from agentcompass.components.contracts.errors import AgentCompassError, Code, RequestError
from agentcompass.components.contracts.task import Task
from agentcompass.components.results.masking import Masker
from agentcompass.components.results.paths import RunFolder
from agentcompass.components.results.reading import DamagedRecord
from agentcompass.components.results.store import RunStore
from tests.components.results.records import (
    full_checkpoint,
    full_detail,
    full_trajectory,
    record,
)

CANARY = 'zz-CANARY-93f/+= x"y'
HASH = "0" * 64


@pytest.fixture
def store(tmp_path):
    return RunStore(RunFolder(tmp_path / "run"), Masker([CANARY]))


def task(task_id: str, category: str | None = None) -> Task:
    return Task(id=task_id, instruction=f"Solve {task_id}.", category=category)


def save(store: RunStore, task_id: str, *outcomes: object) -> None:
    for index, outcome in enumerate(outcomes, 1):
        store.save_record(task(task_id), 4, HASH, record(task_id, index, outcome))


def test_records_come_back_equal(store):
    checkpoint, trajectory = full_checkpoint(), full_trajectory()
    store.save_checkpoint(checkpoint)
    store.save_trajectory(checkpoint.key, trajectory)
    assert store.read_checkpoint(checkpoint.key) == checkpoint
    assert store.read_trajectory(checkpoint.key) == trajectory
    for outcome in full_detail().attempts:
        store.save_record(
            Task(id="django/Ticket #7", instruction="Repariere 修复 the bug.", category="web"),
            3,
            "b" * 64,
            outcome,
        )
    assert store.read_detail("django/Ticket #7") == full_detail()


def test_what_is_not_there_is_none(store):
    key = AttemptKey(task_id="t", index=1)
    assert store.read_run() is None
    assert store.read_metrics() is None
    assert store.read_checkpoint(key) is None
    assert store.read_trajectory(key) is None
    assert store.read_detail("t") is None
    assert list(store.details()) == []


def test_attempts_stand_by_index_in_whatever_order_they_end(store):
    for index in (3, 1, 4, 2):
        store.save_record(task("t"), 4, HASH, record("t", index, index % 2))
    detail = store.read_detail("t")
    assert [r.key.index for r in detail.attempts] == [1, 2, 3, 4]
    assert (detail.planned, detail.instruction) == (4, "Solve t.")


def test_a_new_outcome_of_an_attempt_replaces_the_old_one(store):
    save(store, "t", Code.ENVIRONMENT_LOST, 0)
    again = record("t", 1, 1, key=AttemptKey(task_id="t", index=1, physical=2))
    store.save_record(task("t"), 4, HASH, again)
    assert [r.value for r in store.read_detail("t").attempts] == [1.0, 0.0]
    assert store.read_detail("t").attempts[0].key.physical == 2


def test_a_task_whose_content_changed_is_not_mixed(store):
    save(store, "t", 1)
    with pytest.raises(AgentCompassError, match="task t changed"):
        store.save_record(task("t"), 4, "1" * 64, record("t", 2, 1))
    assert len(store.read_detail("t").attempts) == 1


def test_records_written_from_many_threads_are_all_there(store):
    jobs = [(f"task-{number}", index) for number in range(6) for index in range(1, 9)]
    random.Random(5).shuffle(jobs)
    failures: list[BaseException] = []

    def work(part: list[tuple[str, int]]) -> None:
        try:
            for task_id, index in part:
                store.save_record(task(task_id), 8, HASH, record(task_id, index, index % 2))
                store.append_attempt_log(AttemptKey(task_id=task_id, index=1), f"{index}")
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(jobs[n::8],)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    for detail in store.details():
        assert [r.key.index for r in detail.attempts] == list(range(1, 9))
    lines = store.folder.attempt_log(AttemptKey(task_id="task-0", index=1)).read_text()
    assert sorted(lines.split()) == [str(index) for index in range(1, 9)]


def test_details_follow_the_runs_list_of_tasks_then_their_ids(store):
    for task_id in ("b", "A", "c/x", "a", "Z"):
        save(store, task_id, 1)
    assert [d.task_id for d in store.details()] == ["A", "Z", "a", "b", "c/x"]
    store.write_run({"tasks": ["c/x", {"id": "b", "category": None}, "never-ran"]})
    assert [d.task_id for d in store.details()] == ["c/x", "b", "A", "Z", "a"]


def test_memory_does_not_grow_with_the_number_of_tasks(store):
    big = Verdict(correct=True, evidence=({"name": "log", "text": "x" * 200_000},))
    tracemalloc.start()
    try:
        for number in range(60):
            finished = record(f"t{number}", 1, 1, verdict=big)
            store.save_record(task(f"t{number}"), 1, HASH, finished)
        total = sum(len(d.attempts) for d in store.details())
        now, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert total == 60
    assert now < 2_000_000
    assert peak < 8_000_000  # the 60 details are 12 MB


@pytest.mark.parametrize("content", [b"", b"{", b'{"schema_version": 1', b"\xff\xfe", b"[]", b"{}"])
def test_a_damaged_file_is_named_and_kept(store, content):
    save(store, "t", 1)
    path = store.folder.detail("t")
    path.write_bytes(content)
    for read in (lambda: store.read_detail("t"), lambda: list(store.details())):
        with pytest.raises(DamagedRecord) as caught:
            read()
        assert caught.value.path == path
        assert str(path) in str(caught.value)
        assert "\n" not in str(caught.value)
    with pytest.raises(DamagedRecord):
        save(store, "t", 0)
    assert path.read_bytes() == content


def test_a_torn_file_is_damaged_wherever_it_was_cut(store):
    store.save_checkpoint(full_checkpoint())
    path = store.folder.checkpoint(full_checkpoint().key)
    whole = path.read_bytes()
    for length in range(0, len(whole) - 2, 17):
        path.write_bytes(whole[:length])
        with pytest.raises(DamagedRecord):
            store.read_checkpoint(full_checkpoint().key)


def test_a_newer_version_is_refused_by_name(store):
    save(store, "t", 1)
    path = store.folder.detail("t")
    path.write_text(json.dumps({**json.loads(path.read_text()), "schema_version": 3}))
    with pytest.raises(DamagedRecord, match="schema_version 3 .*reads up to 2") as caught:
        store.read_detail("t")
    assert caught.value.path == path
    assert isinstance(caught.value, RequestError)


def test_a_record_under_another_name_is_not_taken(store):
    save(store, "a", 1)
    store.folder.task("b").mkdir()
    store.folder.detail("b").write_bytes(store.folder.detail("a").read_bytes())
    with pytest.raises(DamagedRecord, match="belongs to task 'a'"):
        store.read_detail("b")
    with pytest.raises(DamagedRecord, match="belongs to task 'a'"):
        list(store.details())
    checkpoint = full_checkpoint()
    store.save_checkpoint(checkpoint)
    other = checkpoint.key.model_copy(update={"physical": 4})
    store.folder.attempt(other).mkdir(parents=True)
    store.folder.checkpoint(checkpoint.key).rename(store.folder.checkpoint(other))
    with pytest.raises(DamagedRecord, match="belongs to"):
        store.read_checkpoint(other)


def test_left_over_temporary_files_do_no_harm(store):
    save(store, "t", 1)
    (store.folder.task("t") / ".0123456789abcdef.tmp").write_bytes(b'{"half')
    assert [d.task_id for d in store.details()] == ["t"]


def test_a_full_disk_stops_with_the_path_and_keeps_what_was_there(store, monkeypatch):
    save(store, "t", 1)

    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(AgentCompassError, match="No space left") as caught:
        save(store, "t", 1, 1)
    assert caught.value.code is Code.RESULTS_WRITE
    assert caught.value.policy.stops_run
    monkeypatch.undo()
    assert [r.value for r in store.read_detail("t").attempts] == [1.0]


def test_no_key_reaches_any_file(store):
    key = AttemptKey(task_id="t", index=1)
    store.write_run({"tasks": ["t"], "url": f"http://u:{CANARY}@h/", "params": {"k": [CANARY]}})
    store.write_progress({"note": CANARY})
    store.save_checkpoint(
        full_checkpoint(key).model_copy(update={"submission": Submission(answer=CANARY)})
    )
    trajectory = full_trajectory()
    call = (
        trajectory.steps[2]
        .tool_calls[0]
        .model_copy(update={"arguments": {CANARY: {"deep": f"echo {CANARY}"}}})
    )
    step = trajectory.steps[2].model_copy(update={"tool_calls": (call,), "message": CANARY})
    store.save_trajectory(key, trajectory.model_copy(update={"steps": (step,)}))
    store.append_attempt_log(key, f"401: {json.dumps(CANARY)}")
    store.artifacts(key).save("env.txt", f"API_KEY={CANARY}".encode())
    leaky = Verdict(correct=True, evidence=({"name": CANARY, "text": CANARY},))
    store.save_record(task("t"), 1, HASH, record("t", 1, 1, verdict=leaky))
    store.write_summary(f"it was {CANARY}")
    files = [path for path in store.folder.root.rglob("*") if path.is_file()]
    assert len(files) == 8
    for path in files:
        assert b"CANARY" not in path.read_bytes(), path
        assert "CANARY" not in path.name
    assert store.read_detail("t").attempts[0].value == 1.0
    assert store.read_checkpoint(key).submission.answer == "***"
    assert store.read_trajectory(key).steps[0].tool_calls[0].arguments == {
        "***": {"deep": "echo ***"}
    }


def test_odd_tool_output_is_stored_counted_and_read_back(store):
    key = AttemptKey(task_id="t", index=1)
    trajectory = full_trajectory()
    odd = "nul \0, file name \udc80, \u2028, literal \\u0000, half \ud83d"
    step = trajectory.steps[1].model_copy(update={"message": odd})
    call = (
        trajectory.steps[2]
        .tool_calls[0]
        .model_copy(update={"arguments": {"x": float("nan"), "none": None}})
    )
    agent_step = trajectory.steps[2].model_copy(update={"tool_calls": (call,)})
    store.save_trajectory(key, trajectory.model_copy(update={"steps": (step, agent_step)}))
    read = store.read_trajectory(key)
    assert (
        read.steps[0].message
        == "nul \ufffd, file name \ufffd, \u2028, literal \\u0000, half \ufffd"
    )
    assert read.steps[1].tool_calls[0].arguments == {"x": "NaN", "none": None}
    assert read.extra == {"replaced_characters": 4}
    store.append_attempt_log(key, odd)
    store.folder.attempt_log(key).read_text(encoding="utf-8")
    store.save_record(task("t"), 1, HASH, record("t", 1, 1, submission=Submission(answer=odd)))
    assert "\\u0000" in store.read_detail("t").attempts[0].submission.answer


def test_unset_fields_are_left_out_of_the_trajectory(store):
    key = AttemptKey(task_id="t", index=1)
    store.save_trajectory(key, full_trajectory())
    written = json.loads(store.folder.trajectory(key).read_text())
    assert "model_name" not in written["steps"][0]
    assert written["steps"][2]["tool_calls"][0]["arguments"]["z"] is None


def test_the_attempt_log_grows_by_whole_lines(store):
    key = AttemptKey(task_id="t", index=1, physical=2)
    store.append_attempt_log(key, "one")
    store.append_attempt_log(key, "two\nthree\n")
    assert store.folder.attempt_log(key).read_text() == "one\ntwo\nthree\n"


def test_what_is_written_for_a_failed_try_is_not_read_for_a_later_one(store):
    first, second = (AttemptKey(task_id="t", index=1, physical=n) for n in (1, 2))
    store.save_checkpoint(full_checkpoint(first))
    artifact = store.artifacts(first).save("patch.diff", b"bad")
    assert store.read_checkpoint(second) is None
    with pytest.raises(AgentCompassError, match="No such file"):
        store.artifacts(second).read(artifact)


def test_a_skipped_attempt_is_kept(store):
    store.save_record(
        task("t"), 2, HASH, AttemptRecord(key=AttemptKey(task_id="t", index=2), status="skipped")
    )
    assert store.read_detail("t").attempts[0].status == "skipped"
