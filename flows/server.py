"""The local Prefect server that stays: started by the first run, shared by all later ones.

Nothing here imports Prefect, so that `agentcompass server status` answers at once. The server
is a detached `prefect server start` on loopback with its database in the Prefect home; a state
file beside the database names its process and port. A lock makes two starts at once one start.
"""

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import tomllib
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import psutil
from filelock import FileLock

START_TIMEOUT_SECONDS = 120
USUAL_PORT = 4200

LOOPBACK = ("127.0.0.1", "localhost", "::1")

PASSED_ON = ("PATH", "HOME", "USER", "LOGNAME", "SHELL", "TMPDIR", "LANG", "LANGUAGE", "TZ")
"""Of the starter's variables the server sees these, and those of Prefect, Python and the locale:
it outlives the run, and agents may look into processes of their user."""

SERVER_ENVIRONMENT = {
    # No word leaves the machine.
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "DO_NOT_TRACK": "1",
    "PREFECT_SERVER_UI_SHOW_PROMOTIONAL_CONTENT": "false",
    # A task run costs the server 45 ms of CPU unbatched and 14 ms batched.
    "PREFECT_SERVER_SERVICES_TASK_RUN_RECORDER_BATCH_SIZE": "100",
    "PREFECT_SERVER_SERVICES_TASK_RUN_RECORDER_READ_BATCH_SIZE": "100",
    "PREFECT_SERVER_SERVICES_TASK_RUN_RECORDER_FLUSH_INTERVAL": "1",
    "PREFECT_SERVER_SERVICES_EVENT_PERSISTER_BATCH_SIZE": "500",
    "PREFECT_SERVER_SERVICES_EVENT_PERSISTER_READ_BATCH_SIZE": "100",
    # Leases must outlive a restart of the server; memory leases leave their slots taken.
    "PREFECT_SERVER_CONCURRENCY_LEASE_STORAGE": (
        "prefect.server.concurrency.lease_storage.filesystem"
    ),
    # Automations are not part of a local run.
    "PREFECT_SERVER_SERVICES_TRIGGERS_ENABLED": "false",
    "PREFECT_SERVER_LOGGING_LEVEL": "WARNING",
}


class ServerProblem(Exception):
    """The server cannot be started or reached; one line."""


class _PortTaken(ServerProblem):
    """Somebody else was given the port between our look and our server's."""


@dataclass(frozen=True)
class ServerState:
    url: str
    """Of the API, ending in /api."""
    ui_url: str
    pid: int
    process_started: float
    """As the operating system gives it, so that a reused pid is not taken for the server."""
    started_at: str
    home: str


def chosen_url() -> str | None:
    """The API the user chose: PREFECT_API_URL, else the active profile's; None: ours."""
    if url := os.environ.get("PREFECT_API_URL"):
        return url
    profiles = home() / "profiles.toml"
    try:
        content = tomllib.loads(profiles.read_text(encoding="utf-8"))
    except (OSError, tomllib.TOMLDecodeError):
        return None
    active = os.environ.get("PREFECT_PROFILE") or content.get("active")
    chosen = content.get("profiles", {}).get(active, {}).get("PREFECT_API_URL")
    return chosen if isinstance(chosen, str) else None


def answers(url: str, timeout_seconds: float = 5.0) -> bool:
    """Whether a Prefect API answers at this address. One that asks for a key, or has a certificate
    that is not known here, is there as well: Prefect's own settings may have both."""
    loopback = urlsplit(url).hostname in LOOPBACK  # never by a proxy
    try:
        reply = httpx.get(
            f"{url.rstrip('/')}/health", timeout=timeout_seconds, trust_env=not loopback
        )
    except (httpx.HTTPError, httpx.InvalidURL, ValueError, ImportError) as error:
        return "CERTIFICATE_VERIFY_FAILED" in str(error)
    return reply.is_success or reply.status_code in (401, 403)


def start() -> ServerState:
    """The running server, started if there is none. Safe to call from many processes at once."""
    folder = home()
    with FileLock(folder / "agentcompass-server.lock", timeout=START_TIMEOUT_SECONDS + 30):
        state = _read_state()
        if state is not None and (process := _process(state)) is not None:
            # It may be busy or still starting; a second server on one database helps nobody.
            return _until_it_answers(state, process)
        return _launch(folder)


def status() -> ServerState | None:
    """The running server; None if there is none. Stale state files are not believed."""
    state = _read_state()
    if state is None or _process(state) is None or not answers(state.url):
        return None
    return state


def revive(url: str) -> bool:
    """Start our server again if it stood at this address and is gone; False if it is not ours."""
    state = _read_state()
    if state is None or state.url != url:
        return False
    if _process(state) is not None:
        return True
    return start().url == url


def stop() -> bool:
    """End the server; False if none was running."""
    with FileLock(home() / "agentcompass-server.lock", timeout=START_TIMEOUT_SECONDS + 30):
        state = _read_state()
        process = _process(state) if state else None
        if process is not None:
            _end(process)
        _state_file().unlink(missing_ok=True)
        return process is not None


def home() -> Path:
    """The Prefect home; a private temporary folder where the user's own cannot be written."""
    wanted = Path(os.environ.get("PREFECT_HOME") or Path.home() / ".prefect").expanduser()
    fallback = Path(tempfile.gettempdir()) / f"agentcompass-prefect-{os.getuid()}"
    for folder in (wanted, fallback):
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=folder):
                if folder.stat().st_uid == os.getuid() or folder == wanted:
                    return folder  # a temporary folder of somebody else's is no home
        except OSError:
            continue
    raise ServerProblem(f"no folder for Prefect's database: {wanted} and {fallback} are read-only")


def _launch(folder: Path) -> ServerState:
    try:
        return _launch_at(_free_port(), folder)
    except _PortTaken:
        return _launch_at(_free_port(), folder)


def _launch_at(port: int, folder: Path) -> ServerState:
    log = folder / "agentcompass-server.log"
    environment = {
        name: value
        for name, value in os.environ.items()
        if name not in _CLIENT_ONLY
        and (name in PASSED_ON or name.startswith(("PREFECT_", "PYTHON", "LC_", "OPENBLAS_")))
    }
    environment |= SERVER_ENVIRONMENT | {
        "PREFECT_HOME": str(folder),
        "PREFECT_UI_API_URL": f"http://127.0.0.1:{port}/api",
    }
    with log.open("ab") as output:
        server = subprocess.Popen(
            [sys.executable, "-m", "prefect", "server", "start"]
            + ["--host", "127.0.0.1", "--port", str(port)],
            env=environment,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    state = ServerState(
        url=f"http://127.0.0.1:{port}/api",
        ui_url=f"http://127.0.0.1:{port}",
        pid=server.pid,
        process_started=psutil.Process(server.pid).create_time(),
        started_at=datetime.now(UTC).isoformat(timespec="seconds"),
        home=str(folder),
    )
    temporary = _state_file().with_suffix(".tmp")
    temporary.write_text(json.dumps(asdict(state)), encoding="utf-8")
    temporary.replace(_state_file())
    return _until_it_answers(state, psutil.Process(server.pid))


def _until_it_answers(state: ServerState, process: psutil.Process) -> ServerState:
    deadline = time.monotonic() + START_TIMEOUT_SECONDS
    log = Path(state.home) / "agentcompass-server.log"
    while time.monotonic() < deadline:
        if not process.is_running() or process.status() == psutil.STATUS_ZOMBIE:
            # Another home's server, started in the same moment, may have got the port.
            taken = answers(state.url, timeout_seconds=2)
            problem = _PortTaken if taken else ServerProblem
            raise problem(f"the Prefect server ended while starting; see {log}")
        if _listens(process, state) and answers(state.url, timeout_seconds=2):
            return state
        time.sleep(0.2)
    raise ServerProblem(
        f"the Prefect server (pid {state.pid}) did not answer in {START_TIMEOUT_SECONDS} s; "
        f"see {log}, or end it with: agentcompass server stop"
    )


def _listens(process: psutil.Process, state: ServerState) -> bool:
    """Whether it is this server that stands at its address, and not another home's."""
    port = int(state.ui_url.rpartition(":")[2])
    try:
        family = (process, *process.children(recursive=True))
        found = [one for member in family for one in member.net_connections(kind="tcp")]
    except psutil.AccessDenied:  # a system that does not say
        return True
    except psutil.Error:  # it ends
        return False
    return any(one.status == psutil.CONN_LISTEN and one.laddr.port == port for one in found)


_CLIENT_ONLY = {"PREFECT_API_URL", "PREFECT_API_KEY", "PREFECT_PROFILE"}


def _free_port() -> int:
    """The port of the server before, for the runs that still talk to it; the usual one; any."""
    before = _read_state()
    port_before = [int(before.ui_url.rpartition(":")[2])] if before else []
    for port in (*port_before, USUAL_PORT, 0):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return int(probe.getsockname()[1])
    raise ServerProblem("no free port on 127.0.0.1")


def _state_file() -> Path:
    return home() / "agentcompass-server.json"


def _read_state() -> ServerState | None:
    try:
        return ServerState(**json.loads(_state_file().read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None


def _process(state: ServerState) -> psutil.Process | None:
    try:
        process = psutil.Process(state.pid)
        alive = process.is_running() and process.status() != psutil.STATUS_ZOMBIE
        same = abs(process.create_time() - state.process_started) < 1
    except psutil.Error:
        return None
    return process if alive and same else None


def _end(process: psutil.Process) -> None:
    family = [process, *process.children(recursive=True)]
    for member in family:
        try:
            member.terminate()
        except psutil.Error:
            continue
    _, alive = psutil.wait_procs(family, timeout=10)
    for member in alive:
        try:
            member.kill()
        except psutil.Error:
            continue
