import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentcompass.flows.server import USUAL_PORT

# Compiled files are shared with whoever runs after; a test's home is its own.
os.environ.pop("PREFECT_API_URL", None)
os.environ.pop("PREFECT_PROFILE", None)
os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
# A shell starts what it puts in the background deaf to Ctrl-C, and so would be every program that
# the tests start and interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_configure(config: pytest.Config) -> None:
    """Hold the servers' usual port for as long as the tests run.

    Each process of the tests has a server of its own, several start at once, and a free port is
    only looked for, not held: two that find the usual one free would be given the same.
    """
    if hasattr(config, "workerinput"):
        return
    held = socket.socket()
    try:
        held.bind(("127.0.0.1", USUAL_PORT))
    except OSError:
        held.close()  # somebody's own server is there: as good
        return
    config.add_cleanup(held.close)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Say what fails when it fails: of a run that is ended from outside, this is all there is."""
    if report.failed and not os.environ.get("PYTEST_XDIST_WORKER"):
        crash = getattr(report.longrepr, "reprcrash", None)
        reason = str(crash or report.longrepr)[:500]
        print(f"\n{report.nodeid} failed in {report.when}: {reason}", flush=True)


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Keep how it ended, which make does not pass on: CI repeats what failed, nothing else."""
    cache = session.config.cache
    if cache is not None and not os.environ.get("PYTEST_XDIST_WORKER"):
        cache.set("agentcompass/exitstatus", int(exitstatus))


@pytest.fixture(scope="session")
def prefect_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A Prefect home of this test run, with its own local server once one was started."""
    from agentcompass.flows import server

    folder = tmp_path_factory.mktemp("prefect")
    before = os.environ.get("PREFECT_HOME")
    os.environ["PREFECT_HOME"] = str(folder)
    try:
        server.start()
        yield folder
    finally:
        server.stop()
        os.environ.pop("PREFECT_HOME")
        if before is not None:
            os.environ["PREFECT_HOME"] = before
