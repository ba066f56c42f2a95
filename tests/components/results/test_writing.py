import errno
import json
import os
import resource
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from agentcompass.components.contracts.errors import AgentCompassError, Code
from agentcompass.components.results.writing import clean_text, replacing, to_json, write_atomic
from tests.components.results.records import full_detail


def test_a_file_is_written_whole_with_its_folders_and_nothing_beside_it(tmp_path):
    path = tmp_path / "a" / "b" / "file.json"
    write_atomic(path, b"one")
    write_atomic(path, b"two")
    assert path.read_bytes() == b"two"
    assert [p.name for p in path.parent.iterdir()] == ["file.json"]


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EACCES, errno.EIO])
@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_a_refused_write_names_the_path_and_leaves_the_old_file_alone(
    tmp_path, monkeypatch, number, call
):
    path = tmp_path / "detail.json"
    write_atomic(path, b"old")

    def fail(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    if call == "fsync":
        monkeypatch.setattr("os.fsync", fail)
    else:
        monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(AgentCompassError) as caught:
        write_atomic(path, b"new")
    assert caught.value.code is Code.RESULTS_WRITE
    assert str(caught.value) == f"cannot write {path}: {os.strerror(number)}"
    assert path.read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir()] == ["detail.json"]


def test_a_file_that_the_system_cuts_short_is_a_failed_write(tmp_path):
    # A real limit of the operating system, in a process of its own.
    program = (
        "import resource, signal, sys\n"
        "from pathlib import Path\n"
        "from agentcompass.components.contracts.errors import AgentCompassError\n"
        "from agentcompass.components.results.writing import write_atomic\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        "try:\n"
        "    write_atomic(Path(sys.argv[1]), b'x' * 5000)\n"
        "except AgentCompassError as error:\n"
        "    print(error.code, error)\n"
    )
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "big")],
        capture_output=True,
        text=True,
        env=environment,
    )
    assert done.stdout.startswith(f"results.write cannot write {tmp_path / 'big'}: "), done.stderr
    assert list(tmp_path.iterdir()) == []


def test_an_interrupt_leaves_no_temporary_file(tmp_path):
    def interrupted() -> None:
        with replacing(tmp_path / "x") as temporary:
            temporary.write_bytes(b"half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert list(tmp_path.iterdir()) == []


def test_kill_9_leaves_the_old_or_the_new_content(tmp_path):
    path = tmp_path / "file"
    program = (
        "import sys\n"
        "from pathlib import Path\n"
        "from agentcompass.components.results.writing import write_atomic\n"
        "path = Path(sys.argv[1])\n"
        "while True:\n"
        "    for letter in b'ab':\n"
        "        write_atomic(path, bytes([letter]) * 300_000)\n"
    )
    for _ in range(3):
        path.unlink(missing_ok=True)
        child = subprocess.Popen([sys.executable, "-c", program, str(path)])
        while not path.exists():
            assert child.poll() is None
            time.sleep(0.01)
        time.sleep(0.05)
        child.send_signal(signal.SIGKILL)
        child.wait()
        assert path.read_bytes() in (b"a" * 300_000, b"b" * 300_000)


def test_a_parent_that_is_a_file_is_named(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(AgentCompassError, match="cannot write .*file/deeper/x.json: "):
        write_atomic(tmp_path / "file" / "deeper" / "x.json", b"")


def test_many_writes_leave_no_open_files(tmp_path):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    before = len(list(Path("/proc/self/fd").iterdir())) if Path("/proc/self/fd").exists() else 0
    for number in range(50):
        write_atomic(tmp_path / f"f{number}", b"x")
    after = len(list(Path("/proc/self/fd").iterdir())) if Path("/proc/self/fd").exists() else 0
    assert after <= before + 2
    assert (soft, hard) == resource.getrlimit(resource.RLIMIT_NOFILE)


# Case C23: text that stores refuse


def test_what_utf8_and_json_cannot_carry_is_replaced_and_counted():
    value, count = clean_text(
        {"out": "a\0b\udc80c", "say": ["\ud83d", "fine"], "n\0": ("x\0\0", 1, None, True)}
    )
    assert value == {
        "out": "a\ufffdb\ufffdc",
        "say": ["\ufffd", "fine"],
        "n\ufffd": ["x\ufffd\ufffd", 1, None, True],
    }
    assert count == 6


def test_literal_escapes_and_odd_but_valid_text_stay():
    text = "\\u0000 \\x00 \\ud83d \u2028 \x1b[0m \U0001f600 \r\n"
    assert clean_text(text) == (text, 0)
    assert json.loads(to_json({"t": text}))["t"] == text


def test_keys_that_become_equal_stay_two():
    value, count = clean_text({"a" + bad: n for n, bad in enumerate(("\0", "\ufffd", "\ud800"), 1)})
    assert sorted(value.values()) == [1, 2, 3]
    assert count == 2


def test_json_is_strict_whatever_goes_in():
    deep: object = "core"
    for _ in range(5_000):
        deep = {"d": deep}
    raw = to_json(
        {
            "nan": float("nan"),
            "inf": [float("inf"), -float("inf")],
            "deep": deep,
            "lone": "\ud83d\0",
            1: {"set": {"b", "a"}},
            "when": datetime(2026, 1, 2, tzinfo=UTC),
            "bytes": b"\xff\0ok",
            "path": Path("a/b"),
            "code": Code.MODEL_AUTH,
        }
    )

    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    read = json.loads(raw.decode("utf-8"), parse_constant=refuse)
    assert read["nan"] == "NaN"
    assert read["inf"] == ["Infinity", "-Infinity"]
    assert read["lone"] == "\ufffd\ufffd"
    assert read["1"] == {"set": ["a", "b"]}
    assert read["when"] == "2026-01-02T00:00:00Z"
    assert read["bytes"] == "\ufffd\ufffdok"
    assert read["path"] == "a/b"
    assert read["code"] == "model.auth"
    assert "nested deeper than 100 levels" in json.dumps(read["deep"])


def test_json_of_a_model_is_what_pydantic_reads_back():
    detail = full_detail()
    raw = to_json(detail)
    assert type(detail).model_validate_json(raw) == detail
    assert raw.endswith(b"}\n")
    assert list(json.loads(raw))[:2] == ["schema_version", "task_id"]
    assert json.loads(raw) == detail.model_dump(mode="json")
