"""Who works in a run's folder: one process, and whoever looks does not get in its way."""

import errno
import fcntl
import threading
import time
from pathlib import Path

import pytest

from agentcompass.components.contracts.errors import AgentCompassError, Code, RequestError
from agentcompass.components.results.lease import RunLease, holder


def test_a_second_one_is_refused_and_told_who_works(tmp_path: Path) -> None:
    path = tmp_path / "lease.json"
    assert holder(path) is None
    first, second = RunLease(path), RunLease(path)
    first.take()
    assert "process " in (holder(path) or "")
    with pytest.raises(RequestError, match="worked on by process"):
        second.take()
    first.release()
    assert holder(path) is None
    second.take()
    second.release()


def test_a_look_does_not_make_a_take_fail(tmp_path: Path) -> None:
    path = tmp_path / "lease.json"
    path.touch()
    with path.open() as looking:
        fcntl.flock(looking, fcntl.LOCK_SH)
        threading.Timer(0.2, fcntl.flock, (looking, fcntl.LOCK_UN)).start()
        lease = RunLease(path)
        lease.take()
        lease.release()
        time.sleep(0.3)


@pytest.mark.parametrize("number", [errno.ENOSYS, errno.ENOLCK])
def test_a_file_system_without_locks_is_named_as_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def no_locks(*_: object) -> None:
        raise OSError(number, "No locks here")

    monkeypatch.setattr(fcntl, "flock", no_locks)
    path = tmp_path / "lease.json"
    with pytest.raises(AgentCompassError, match=r"lease\.json: No locks here") as failed:
        RunLease(path).take()
    assert failed.value.code is Code.RESULTS_WRITE
    assert holder(path) is None


def test_a_folder_that_is_gone_is_a_failed_write(tmp_path: Path) -> None:
    with pytest.raises(AgentCompassError, match="cannot write"):
        RunLease(tmp_path / "gone" / "lease.json").take()
