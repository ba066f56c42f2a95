"""Run an evaluation in this process, against the user's Prefect API or our local server."""

import asyncio
import contextvars
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, TypeVar

from agentcompass.components.configuration.secrets import holding
from agentcompass.components.contracts.progress import Outcome, Progress
from agentcompass.components.contracts.run import RunRequest, RuntimeSettings
from agentcompass.flows import server

if TYPE_CHECKING:
    from agentcompass.flows.together import Member

log = logging.getLogger(__name__)

T = TypeVar("T")

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Ctrl-C, a polite kill, a terminal that closes: each ends the run in order."""


def run_locally(
    request: RunRequest,
    secrets: Mapping[str, str],
    listen: Callable[[Progress], None] | None = None,
    note: Callable[[str], None] | None = None,
) -> Outcome:
    """Carry out the request and tell how it ended.

    `secrets` are the values behind the request's references; `listen` hears the progress, `note`
    single lines for the user. Raises RequestError and PreflightRefused before anything is spent,
    ServerProblem if no Prefect API can be had, KeyboardInterrupt before the attempts began.
    """
    note = note or (lambda line: None)
    connect(note)
    # Prefect reads its settings when it is imported; from here on they stand.
    from agentcompass.flows.local_run import carry_out
    from agentcompass.flows.session import Session, Stopped

    session = Session(note=note)
    if listen is not None:
        session.listen = listen
    with holding(secrets):
        ended: Future[Outcome] = in_a_thread(
            lambda: carry_out(request, tuple(secrets.values()), session), session.request_stop
        )
    try:
        return ended.result()
    except asyncio.CancelledError:
        raise Stopped(session.signal or signal.SIGINT) from None


def launch_locally(
    name: str,
    members: "Sequence[Member]",
    task_concurrency: int | None,
    settings: RuntimeSettings,
    note: Callable[[str], None] | None = None,
) -> int | None:
    """Carry out a launch; what became of each request is in its member.

    The number of the signal that ended it early, or None. Raises ServerProblem.
    """
    note = note or (lambda line: None)
    connect(note)
    from agentcompass.flows.local_launch import carry_out
    from agentcompass.flows.together import Together

    heard: list[int] = []
    together = Together(members, task_concurrency)
    secrets = tuple(value for member in members for value in member.secrets.values())

    def stop(number: int, loop: asyncio.AbstractEventLoop, task: "asyncio.Task[None]") -> None:
        heard.append(number)
        loop.call_soon_threadsafe(together.request_stop, number)

    in_a_thread(lambda: carry_out(name, together, settings, secrets), stop).result()
    return heard[0] if heard else None


def connect(note: Callable[[str], None]) -> None:
    """Choose the API, start our server if it is ours, and set Prefect's client up for it."""
    if "prefect" in sys.modules:  # a program of the user's has chosen already
        return
    chosen = server.chosen_url()
    if chosen and not server.answers(chosen):
        note(f"the Prefect API at {chosen} does not answer; using the local server instead")
        chosen = None
    # Loopback is never reached by a proxy, whatever the user's variables say.
    for name in ("NO_PROXY", "no_proxy"):
        known = os.environ.get(name, "")
        os.environ[name] = ",".join(filter(None, (known, "127.0.0.1", "localhost")))
    if chosen is None:
        if server.status() is None:
            note("starting the local Prefect server, once; it stays for later runs …")
        state = server.start()
        os.environ["PREFECT_HOME"] = state.home
        os.environ["PREFECT_API_URL"] = state.url
        # Harmless for a plain http address, and saves loading certificates for every client.
        os.environ.setdefault("PREFECT_API_TLS_INSECURE_SKIP_VERIFY", "true")
        os.environ.setdefault("PREFECT_CLIENT_CSRF_SUPPORT_ENABLED", "false")
        os.environ.setdefault("PREFECT_CLIENT_SERVER_VERSION_CHECK_ENABLED", "false")
        note(f"Prefect UI: {state.ui_url}")
    else:  # the environment's, or that of the Prefect profile: one place to look from here on
        os.environ["PREFECT_API_URL"] = chosen
    settings = Path(__file__).with_name("logging.yml")
    os.environ.setdefault("PREFECT_LOGGING_SETTINGS_PATH", str(settings))
    # What is said before the flow begins is for the console and the log file only.
    os.environ.setdefault("PREFECT_LOGGING_TO_API_WHEN_MISSING_FLOW", "ignore")
    os.environ.setdefault("DO_NOT_TRACK", "1")


def in_a_thread(
    start: Callable[[], Coroutine[object, object, T]],
    request_stop: "Callable[[int, asyncio.AbstractEventLoop, asyncio.Task[T]], None]",
) -> "Future[T]":
    """Run the flow in a thread of its own, while this one has the signals.

    In the main thread each Prefect flow would install its own SIGTERM handler, which raises in
    the middle of the event loop and skips the teardown of sandboxes.
    """
    ended: Future[T] = Future()
    context = contextvars.copy_context()

    def work() -> None:
        try:
            with asyncio.Runner() as runner:
                loop = runner.get_loop()
                loop.set_exception_handler(_log_unawaited)
                task = context.run(loop.create_task, start())
                reach.append((loop, task))
                for number in early:
                    request_stop(number, loop, task)
                ended.set_result(loop.run_until_complete(task))
        except BaseException as error:
            ended.set_exception(error)

    def tell(number: int) -> None:
        if not reach:  # the thread has only begun, and hears of it then
            early.append(number)
            return
        with suppress(RuntimeError):  # the loop has ended: so has the run
            request_stop(number, *reach[0])

    reach: list[tuple[asyncio.AbstractEventLoop, asyncio.Task[T]]] = []
    early: list[int] = []
    thread = threading.Thread(target=work, name="agentcompass-run")
    with _passing_signals_on(tell):
        thread.start()
        thread.join()
    return ended


def _log_unawaited(loop: asyncio.AbstractEventLoop, what: dict[str, Any]) -> None:
    """What a library's task raised that nobody awaits, such as Prefect's without its API: no
    traceback on the console of a run that has ended well."""
    log.debug("%s", what.get("message"), exc_info=what.get("exception"))


@contextmanager
def _passing_signals_on(tell: Callable[[int], None]) -> Iterator[None]:
    def handler(number: int, frame: FrameType | None) -> None:
        tell(number)

    if threading.current_thread() is not threading.main_thread():
        yield  # a program of the user's owns the signals
        return
    heard = [number for number in SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
    previous = {number: signal.signal(number, handler) for number in heard}  # nohup stays nohup
    try:
        yield
    finally:
        for number, old in previous.items():
            signal.signal(number, old)
